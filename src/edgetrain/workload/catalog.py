"""What can be trained by name: each network with the dataset the papers trained it on. No torch here.

Full-size counts are those of the papers' tables; a generated dataset has `samples * scale` of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgetrain.workload.errors import RequestError


@dataclass(frozen=True)
class CatalogEntry:
    """One catalogued workload."""

    name: str
    dataset: str  # mnist | cifar10 | gld | folder | tokens
    shape: tuple[int, ...]  # of one sample as the network sees it
    classes: int
    samples: int  # of the full-size dataset
    about: str
    picture: tuple[int, int] | None = None  # width and height of the files, where they are pictures
    file_bytes: int | None = None  # mean size of one file


CATALOG: dict[str, CatalogEntry] = {
    known.name: known
    for known in (
        CatalogEntry("lenet5", "mnist", (1, 28, 28), 10, 60_000, "LeNet-5 on MNIST (28x28 digits, one file)"),
        CatalogEntry(
            "mobilenet_v3", "gld", (3, 224, 224), 203, 23_080,
            "MobileNetV3-Large on Google Landmarks GLD-23k (JPEG files)", (800, 600), 122_000,
        ),
        CatalogEntry(
            "resnet18", "folder", (3, 224, 224), 1000, 50_000,
            "ResNet-18 on image folders, ImageNet style (JPEG files)", (640, 480), 134_000,
        ),
        CatalogEntry(
            "resnet18_cifar_gn", "cifar10", (3, 32, 32), 10, 50_000, "ResNet-18, 3x3 stem, GroupNorm, on CIFAR-10"
        ),
        CatalogEntry("vgg11", "cifar10", (3, 32, 32), 10, 50_000, "VGG-11 on CIFAR-10"),
        CatalogEntry("lstm", "tokens", (57,), 33_278, 36_000, "two-layer LSTM on WikiText-like tokens"),
    )
}  # fmt: skip

# Names people try first.
_ALIASES = {"lenet": "lenet5", "mobilenet": "mobilenet_v3", "mobilenetv3": "mobilenet_v3", "vgg": "vgg11"}


def entry(name: str) -> CatalogEntry:
    """Return the catalogued workload of this name; RequestError lists the known names."""
    key = name.strip().lower().replace("-", "_")
    known = CATALOG.get(_ALIASES.get(key, key))
    if known is None:
        raise RequestError(
            f"no workload is called {name!r}; known: {', '.join(CATALOG)}, and your own as module:function"
        )
    return known


def is_own(network: str) -> bool:
    """Return whether this names the user's own workload, `module:function`."""
    return ":" in network
