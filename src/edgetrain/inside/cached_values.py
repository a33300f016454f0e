"""Values as bytes, for the loader cache: how results are written and compared, and how arguments become a key."""

from __future__ import annotations

import io
import operator
import pickle
import sys
import types
from typing import Any

PROTOCOL = 4
ATOMS = (int, float, complex, bool, str, bytes, bytearray, type(None), type, types.FunctionType,
         types.BuiltinFunctionType)  # fmt: skip


class _Pickler(pickle.Pickler):
    """Writes tensors as their memory: torch's own way is slow, and its bytes differ between two equal tensors."""

    def reducer_override(self, obj: Any) -> Any:
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(obj, torch.Tensor):
            return _reduce_tensor(torch, obj)
        if numpy is not None and type(obj) is numpy.ndarray:
            return _reduce_array(obj)
        return NotImplemented


def dumps(value: Any) -> bytes:
    """Return any value as bytes. Values of equal bytes are equal; whether others are is for `same` to say."""
    file = io.BytesIO()
    _Pickler(file, PROTOCOL).dump(value)
    return file.getvalue()


def loads(data: Any) -> Any:
    """Return the value that was written as these bytes; types, values and strides are as they were."""
    return pickle.loads(data)


def _reduce_tensor(torch: Any, obj: Any) -> Any:
    kind = type(obj)
    if obj.device.type != "cpu" or obj.layout is not torch.strided or obj.is_quantized:
        return NotImplemented
    if kind is not torch.Tensor and not _is_plain_subclass(torch, kind):
        return NotImplemented
    plain = obj.as_subclass(torch.Tensor).detach().resolve_conj().resolve_neg()
    shape, stride = tuple(plain.shape), plain.stride()
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride)) if plain.numel() else 0
    # As it lies in memory, unless there are gaps between its elements, as in a column of a matrix.
    as_it_lies = span <= plain.numel() or 0 in stride
    flat = plain.as_strided((span,), (1,)) if as_it_lies else plain.contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy().tobytes()
    attributes = dict(obj.__dict__) or None
    return make_tensor, (data, obj.dtype, shape, stride, as_it_lies, obj.requires_grad, kind, attributes)


def _is_plain_subclass(torch: Any, kind: type) -> bool:
    """Return whether a subclass adds no more than a name, methods and attributes (torchvision's tv_tensors do so)."""
    names = ("__torch_dispatch__", "__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")
    return all(getattr(kind, name, None) is getattr(torch.Tensor, name, None) for name in names)


def make_tensor(
    data: bytes, dtype: Any, shape: Any, stride: Any, as_it_lies: bool, requires_grad: bool, kind: Any, attributes: Any
) -> Any:
    """Return the tensor that was written as these bytes."""
    import torch

    flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
    if as_it_lies:
        tensor = flat.as_strided(shape, stride)
    else:
        tensor = torch.empty_strided(shape, stride, dtype=dtype).copy_(flat.reshape(shape))
    if kind is not torch.Tensor:
        tensor = tensor.as_subclass(kind)
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor.requires_grad_() if requires_grad else tensor


def _reduce_array(obj: Any) -> Any:
    """Keep the strides of an array whose axes were exchanged; NumPy writes it as if they had not been."""
    if obj.flags.c_contiguous or obj.flags.f_contiguous or obj.dtype.hasobject:
        return NotImplemented
    order = sorted(range(obj.ndim), key=lambda axis: -obj.strides[axis])
    packed = obj.transpose(order)
    if not packed.flags.c_contiguous:
        return NotImplemented
    return transposed, (packed, tuple(order.index(axis) for axis in range(obj.ndim)))


def transposed(array: Any, axes: Any) -> Any:
    """Return the array with its axes in this order."""
    return array.transpose(axes)


def same(first: Any, second: Any) -> bool:
    """Return whether two values have the same types, structure and contents."""
    try:
        return dumps(first) == dumps(second) or _same_parts(first, second)
    except RecursionError:  # a value that contains itself
        return False


def _same_parts(first: Any, second: Any) -> bool:
    """Compare part by part: equal values may be written as different bytes, for example where parts are shared."""
    if type(first) is not type(second):
        return False
    if isinstance(first, (set, frozenset)):
        return first == second
    if type(first) is dict:
        return list(first) == list(second) and all(same(first[key], second[key]) for key in first)
    if isinstance(first, (list, tuple)) and type(first).__reduce_ex__ is object.__reduce_ex__:
        return len(first) == len(second) and all(map(same, first, second))
    if type(first) in ATOMS:
        return False
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(first, torch.Tensor):
        if (first.device, first.layout, first.dtype) != (second.device, second.layout, second.dtype):
            return False
        if first.layout is not torch.strided:
            return same(first.to_dense(), second.to_dense())
        if first.is_quantized:
            return same(first.dequantize(), second.dequantize())
        reduced = _reduce_tensor(torch, first)
        if reduced is not NotImplemented:
            return same(reduced[1], _reduce_tensor(torch, second)[1])
    one, other = _reduced(first), _reduced(second)
    return len(one) == len(other) and all(map(same, one, other))


def _reduced(value: Any) -> list[Any]:
    """Return what an object is made from again: a function, its arguments, attributes, items."""
    found = value.__reduce_ex__(PROTOCOL)
    if isinstance(found, str):
        return [found]
    parts = [list(part) if place in (3, 4) and part is not None else part for place, part in enumerate(found)]
    return parts + [None] * (6 - len(parts))


def key_of(args: Any, kwargs: Any) -> bytes:
    """Return the key of a call; raises where an argument cannot be written."""
    args = _plain(args)
    if len(args) == 1 and not kwargs and type(args[0]) is str:
        return args[0].encode("utf-8", "surrogateescape")
    file = io.BytesIO()
    pickler = _Pickler(file, PROTOCOL)
    pickler.fast = True  # the same string twice is written as two equal strings are
    pickler.dump((args, sorted((name, _plain(value)) for name, value in kwargs.items())))
    return file.getvalue()


def _plain(value: Any) -> Any:
    """Return an argument such that equal ones are written as equal bytes: an index is an int, numpy's too."""
    if type(value) in (tuple, list):
        return type(value)(map(_plain, value))
    if isinstance(value, str):
        return str(value)
    if type(value) in (int, bool, bytes, float, type(None)):
        return value
    if getattr(value, "ndim", 0) or "bool" in str(getattr(value, "dtype", "")):  # a list of indices, a mask
        return value
    try:
        return operator.index(value)
    except Exception:
        return value
