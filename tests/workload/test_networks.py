"""The networks are the published ones."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from edgetrain.workload import CATALOG, RequestError, networks


@pytest.mark.parametrize(
    ("name", "classes", "count"),
    [
        ("mobilenet_v3", 1000, 5_483_032),
        ("resnet18", 1000, 11_689_512),
        ("vgg11", 1000, 132_863_336),
        ("lenet5", 10, 61_706),
        ("resnet18_cifar_gn", 10, 11_173_962),
    ],
)
def test_parameter_counts_are_the_published_ones(name, classes, count):
    with torch.device("meta"):
        assert networks.parameters(networks.build(name, classes)) == count


# Names and shapes as in torchvision's published weight files; the counts are those of the whole files.
TORCHVISION = {
    "mobilenet_v3": (
        312,
        {
            "features.0.0.weight": (16, 3, 3, 3),
            "features.0.1.running_mean": (16,),
            "features.1.block.0.0.weight": (16, 1, 3, 3),
            "features.1.block.1.0.weight": (16, 16, 1, 1),
            "features.4.block.2.fc1.weight": (24, 72, 1, 1),
            "features.4.block.2.fc2.bias": (72,),
            "features.12.block.2.fc1.weight": (168, 672, 1, 1),
            "features.15.block.3.1.num_batches_tracked": (),
            "features.16.0.weight": (960, 160, 1, 1),
            "classifier.0.weight": (1280, 960),
            "classifier.3.bias": (1000,),
        },
    ),
    "resnet18": (
        122,
        {
            "conv1.weight": (64, 3, 7, 7),
            "bn1.running_var": (64,),
            "layer1.0.conv2.weight": (64, 64, 3, 3),
            "layer2.0.downsample.0.weight": (128, 64, 1, 1),
            "layer2.0.downsample.1.weight": (128,),
            "layer4.1.bn2.bias": (512,),
            "fc.weight": (1000, 512),
        },
    ),
    "vgg11": (
        22,
        {
            "features.0.weight": (64, 3, 3, 3),
            "features.18.bias": (512,),
            "classifier.0.weight": (4096, 25088),
            "classifier.6.weight": (1000, 4096),
        },
    ),
}


@pytest.mark.parametrize("name", TORCHVISION)
def test_state_dict_names_and_shapes_are_torchvisions(name):
    entries, some = TORCHVISION[name]
    with torch.device("meta"):
        state = networks.build(name, 1000).state_dict()
    assert len(state) == entries
    assert {key: tuple(state[key].shape) for key in some} == some


@pytest.mark.parametrize("name", [name for name in CATALOG if name != "vgg11"])
def test_a_step_lowers_the_loss_of_its_own_minibatch(name):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network = networks.build(name, 12)
    inputs, targets = networks.example(name, 4, 12)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        loss = torch.nn.functional.cross_entropy(network(inputs), targets)
        losses.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0]


def test_an_unknown_network_is_refused_with_those_there_are():
    with pytest.raises(RequestError, match="lenet5, mobilenet_v3"):
        networks.build("alexnet")
