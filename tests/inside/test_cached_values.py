"""Values of the loader cache: written and read back with types, strides and contents; equal ones are found equal."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from edgetrain.inside.cached_values import dumps, key_of, loads, same

Pair = collections.namedtuple("Pair", "left right")


class Box(torch.Tensor):
    """A tensor with an attribute, as torchvision's bounding boxes are."""


class Row:
    """An object with attributes."""

    def __init__(self, *values: Any) -> None:
        self.values = values


def box() -> Box:
    made: Any = torch.arange(8.0).reshape(2, 4).as_subclass(Box)
    made.canvas = (3, 4)
    return made


# Each is made anew, so that nothing but the contents is equal.
SAMPLES = {
    "dtypes": lambda: [torch.ones((2, 3)).to(d) for d in (torch.bfloat16, torch.bool, torch.int64, torch.complex64)],
    "empty boxes": lambda: {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)},
    "a number": lambda: torch.tensor(3.0),
    "not a number": lambda: [torch.tensor(float("nan")), float("nan"), np.float32("nan")],
    "gradients": lambda: torch.ones(2, requires_grad=True),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "a subclass": box,
    "exchanged axes": lambda: torch.arange(24.0).reshape(2, 4, 3).permute(2, 0, 1),
    "a column": lambda: torch.arange(24.0).reshape(4, 6)[:, 1:5:2],
    "expanded": lambda: torch.arange(3.0)[:, None].expand(3, 4),
    "conjugate": lambda: torch.fft.fft(torch.arange(4.0)).conj(),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "arrays": lambda: [np.ones((4, 5, 3), np.uint8).transpose(2, 0, 1), np.asfortranarray(np.ones((2, 3)))],
    "objects": lambda: Row(
        Pair("a" * 3, np.array([None, "x"], object)), {"x": {"b", "a"}, "y": Row(b"1", torch.ones(1))}
    ),
    "pictures": lambda: (Image.new("RGB", (5, 4), (1, 2, 3)), Image.new("L", (1, 1))),
}


def strides(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.strides
    return value.stride() if isinstance(value, torch.Tensor) and value.layout is torch.strided else None


@pytest.mark.parametrize("make", SAMPLES.values(), ids=SAMPLES)
def test_what_is_read_back_is_the_same_in_type_contents_and_strides(make: Any) -> None:
    value, back = make(), loads(dumps(make()))
    assert same(value, make()) and same(value, back)
    pairs = zip(value, back, strict=True) if type(value) is list else [(value, back)]
    for one, other in pairs:
        assert type(one) is type(other) and strides(one) == strides(other)
        if isinstance(one, torch.Tensor) and not one.is_sparse:
            assert one.requires_grad == other.requires_grad
            assert torch.equal(one.detach(), other.detach()) or bool(torch.isnan(one).all())


def test_values_that_differ_in_anything_are_not_the_same() -> None:
    values = [make() for make in SAMPLES.values()]
    values += [torch.ones(2), torch.zeros(2), torch.ones(2).long(), torch.ones(1, 2), torch.tensor(2.0), 1, 1.0, True]
    values += [
        (1,),
        [1],
        Pair(1, 2),
        Pair(1, 3),
        (1, 2),
        {1: 2},
        {1, 2},
        {1, 3},
        {1: 3},
        Row(1),
        Row(2),
        "1",
        b"1",
        None,
    ]
    values += [torch.eye(3).to_sparse() * 2, np.ones(2), np.ones(2, np.float32), Image.new("L", (1, 2)), len, Row, min]
    for place, value in enumerate(values):
        assert [same(value, other) for other in values].index(True) == place
        assert sum(same(value, other) for other in values) == 1
    other = box()
    other.canvas = (4, 4)  # type: ignore[attr-defined]
    assert not same(box(), other)


def test_a_value_that_contains_itself_is_compared_without_end_of_the_stack() -> None:
    first: list[Any] = [object()]
    first.append(first)
    second: list[Any] = [{1}]
    second.append(second)
    assert not same(first, second)
    assert same(first, first)


def test_the_same_argument_twice_is_the_key_of_two_equal_arguments() -> None:
    name = "".join(["a", "b"])
    assert key_of((name, name), {}) == key_of((name, "".join(["a", "b"])), {})
