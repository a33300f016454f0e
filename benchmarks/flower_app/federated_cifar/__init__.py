"""A small federated training on generated pictures of CIFAR's shape: numpy, or torch (FEDERATED_CIFAR_WITH=torch)."""
