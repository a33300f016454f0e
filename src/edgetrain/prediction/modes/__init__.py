"""Power modes: a few profiled ones predict all the others."""
