"""Finds training in a loop that does not call us: backward passes, optimizer steps, train/eval switches.

Also what is needed to judge a step whose beginning was not seen: how many autograd nodes were made so far, and when a
network was last switched to training, an optimizer made, or gradients cleared.
"""

from __future__ import annotations

import collections
import functools
import heapq
import os
import sys
from time import monotonic_ns
from typing import Any, Protocol

from .process import current

MARK = "_edgetrain_wrapped"
MAX_NODES = 2000  # checked to see what a backward pass goes through; about one microsecond each
MARKS: Any = collections.deque(maxlen=8)  # (instant in µs, autograd nodes made by then) of what often begins a step


def install(torch: Any, session_of: Any) -> None:
    """Wrap what torch offers, once per process; `session_of()` returns the session of this process or None."""
    watch_backward(torch.autograd, session_of)
    from torch.optim import optimizer

    watch_optimizers(optimizer, session_of)
    watch_modules(sys.modules["torch.nn.modules.module"])
    if "torch.cuda.graphs" in sys.modules:
        watch_graphs(sys.modules["torch.cuda.graphs"], session_of)


def _compiling() -> bool:
    """Return whether torch is tracing a program: what is being compiled must not contain calls of the recorder."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    asked = getattr(compiler, "is_compiling", None)
    return bool(asked is not None and asked())


def watch_backward(autograd: Any, session_of: Any) -> None:
    """Wrap `backward`, which Tensor.backward finds by name when called, and `grad`."""
    if hasattr(autograd.backward, MARK):
        return
    original_backward, original_grad = autograd.backward, autograd.grad

    def timed(original: Any, args: Any, kwargs: Any) -> Any:
        session = None if _compiling() else session_of()
        roots = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        if session is None or not session.finds_steps or not session.backward_begins(roots):
            return original(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            session.backward_ended(failed=True)
            raise
        session.backward_ended()
        return result

    @functools.wraps(original_backward)
    def backward(*args: Any, **kwargs: Any) -> Any:
        return timed(original_backward, args, kwargs)

    @functools.wraps(original_grad)
    def grad(*args: Any, **kwargs: Any) -> Any:
        # With create_graph the gradients are part of a loss whose own backward pass is still to come.
        if kwargs.get("create_graph") or len(args) > 4:
            return original_grad(*args, **kwargs)
        return timed(original_grad, args, kwargs)

    setattr(backward, MARK, True)
    autograd.backward, autograd.grad = backward, grad


def watch_graphs(graphs: Any, session_of: Any) -> None:
    """See replays of captured CUDA graphs: a whole training step may be in one, and nothing else of it is seen."""
    original = graphs.CUDAGraph.replay
    if hasattr(original, MARK):
        return

    def replay(self: Any) -> Any:
        session = session_of() if sys.modules["torch"].is_grad_enabled() else None
        if session is None or not session.finds_steps or not session.backward_begins():
            return original(self)
        try:
            return original(self)
        finally:
            session.backward_ended()

    setattr(replay, MARK, True)
    graphs.CUDAGraph.replay = replay


def watch_optimizers(optimizer: Any, session_of: Any) -> None:
    """See every step of every optimizer, by torch's own hook where it has one."""
    if hasattr(optimizer, MARK):
        return
    setattr(optimizer, MARK, True)

    def stepped(which: Any, *unused: Any) -> None:
        if _compiling():
            return
        session = session_of()
        if session is not None and session.finds_steps:
            session.stepped(which)

    if hasattr(optimizer, "register_optimizer_step_post_hook"):  # torch 2.0 and later
        optimizer.register_optimizer_step_post_hook(stepped)
    else:
        original = optimizer.Optimizer._optimizer_step_code

        def step_code(self: Any) -> Any:
            result = original(self)
            stepped(self)
            return result

        optimizer.Optimizer._optimizer_step_code = step_code
    _count_made(optimizer.Optimizer)
    _mark_calls(optimizer.Optimizer, "zero_grad")


def _count_made(kind: Any) -> None:
    """Count optimizers, and remember when they were made."""
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if not _compiling():
            kind._edgetrain_made += 1
            mark_loop()
        return original(self, *args, **kwargs)

    kind._edgetrain_made = 0
    kind.__init__ = __init__


def made_optimizers() -> int | None:
    """Return how many optimizers were made in this process; None where they were not counted."""
    kind = getattr(sys.modules.get("torch.optim.optimizer"), "Optimizer", None)
    return getattr(kind, "_edgetrain_made", None)


def compiled_frames() -> int | None:
    """Return how many frames of the program torch has compiled; None where it does not say."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    try:
        return None if counters is None else int(counters["frames"]["ok"])
    except (KeyError, TypeError, ValueError):
        return None


def _mark_calls(kind: Any, name: str) -> None:
    """Remember when a method was called."""
    original = getattr(kind, name)

    @functools.wraps(original)
    def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _compiling():
            mark_loop()
        return original(self, *args, **kwargs)

    setattr(kind, name, marked)


def watch_modules(module: Any) -> None:
    """See networks being switched to training and to evaluation."""
    original = module.Module.train
    if hasattr(original, MARK):
        return

    @functools.wraps(original)
    def train(self: Any, mode: bool = True) -> Any:
        if not _compiling():
            session = current()
            if session is not None:
                session.training_mode = bool(mode)
            elif mode:
                mark_loop()
        return original(self, mode)

    setattr(train, MARK, True)
    module.Module.train = train


def mark_loop() -> None:
    """Something happened that often begins a step, or a loop."""
    count = _counter()
    MARKS.append((monotonic_ns() // 1000, None if count is None else count()))


def loop_began_us(count: Any) -> int:
    """Return when the step under way began, as far as that can be known: the last mark before its forward pass."""
    now_us = monotonic_ns() // 1000
    if count is None:
        return now_us
    nodes = count()
    for at_us, made in reversed(MARKS):
        if made is not None and made < nodes:
            return int(at_us)
    return now_us


def _counter() -> Any:
    return getattr(sys.modules.get("torch.autograd"), "_get_sequence_nr", None)


def node_counter(torch: Any) -> Any:
    """Return a function that counts the autograd nodes this thread has made so far; None where torch cannot tell."""
    count = _counter()
    if count is not None:
        return count
    try:
        return nodes_by_making_one(torch)
    except (AttributeError, RuntimeError):
        return None


def nodes_by_making_one(torch: Any) -> Any:
    """Return the same for a torch that numbers its nodes but has no counter to read: make one, and take its number."""
    one = torch.ones(1, requires_grad=True)
    made = [0]

    def count() -> int:
        with torch.enable_grad():
            number = (one * 1).grad_fn._sequence_nr()
        made[0] += 1
        return int(number) - made[0]

    count()
    return count


class GraphNode(Protocol):
    """A node of torch's autograd graph, as far as it is read here."""

    next_functions: Any

    def _sequence_nr(self) -> int: ...


def reaches_back(roots: Any, since: int, until: int) -> bool | None:
    """Return whether a backward pass from these tensors goes through nodes made between two counts of nodes.

    The oldest nodes are checked first: those of the oldest loss of a sum are found at once. None where it cannot be
    known.
    """
    if _counter() is None:
        return None  # counts are not the numbers of nodes
    known: dict[int, GraphNode] = {}  # keeps nodes alive: an id is good for as long as its object lives
    waiting: list[tuple[int, int]] = []

    def add(node: GraphNode | None) -> None:
        if node is not None and id(node) not in known:
            known[id(node)] = node
            heapq.heappush(waiting, (node._sequence_nr(), id(node)))

    for root in roots if isinstance(roots, (list, tuple)) else [roots]:
        add(getattr(root, "grad_fn", None))
    for _ in range(MAX_NODES):
        if not waiting:
            break
        number, identity = heapq.heappop(waiting)
        if since <= number < until:
            return True
        if number >= until:
            for node, _ in known[identity].next_functions:
                add(node)
    return False


def stretch() -> float:
    """Return by how much a step is to be stretched: the time ratio of a simulated board's mode to its top mode."""
    try:
        return max(1.0, float(os.environ.get("EDGETRAIN_STRETCH") or 1.0))
    except ValueError:
        return 1.0


def least_step_s() -> float:
    """Return how long a step is to take at least, as on a simulated board; 0 where nothing asks for it."""
    try:
        return max(0.0, float(os.environ.get("EDGETRAIN_STEP_S") or 0.0))
    except ValueError:
        return 0.0
