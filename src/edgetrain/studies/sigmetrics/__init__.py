"""SIGMETRICS 2023, take-aways 1 to 24: caching, pipelining, storage, batch sizes, variability, DVFS, power modes."""
