"""Finds steps in a loop that does not call us: backward passes, optimiser steps, and what the network was told to be.

An iteration is one minibatch to the next of the same loader, never step to step: with gradient accumulation several
minibatches share a step, with two optimisers one has two. A minibatch was trained on when a backward pass or a step
ended while it was in hand; it was evaluated when gradients were off or the network was last told to evaluate.
"""

from __future__ import annotations

import functools
from typing import Any

MARK = "_edgetrain_wrapped"


def install(torch: Any, session_of: Any) -> None:
    """Watch torch's backward passes, optimiser steps and train/eval switches, once per process."""
    _backward(torch, session_of)
    _optimizers(torch, session_of)
    _modes(torch, session_of)


def _backward(torch: Any, session_of: Any) -> None:
    # Tensor.backward looks this name up when called; autograd.grad does not pass here.
    original = torch.autograd.backward
    if hasattr(original, MARK):
        return

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        session = session_of()
        if session is not None:
            session.step_seen()
        return result

    setattr(backward, MARK, True)
    torch.autograd.backward = backward


def _optimizers(torch: Any, session_of: Any) -> None:
    from torch.optim import optimizer

    if hasattr(optimizer, MARK):
        return
    setattr(optimizer, MARK, True)

    compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)

    def stepped(which: Any, *unused: Any) -> None:
        if compiling():
            return  # a step being compiled must not have us in its graph
        session = session_of()
        if session is None:
            return
        if "parameters" not in session.facts:
            with session.guard("parameters could not be counted"):
                session.note(parameters=sum(p.numel() for group in which.param_groups for p in group["params"]))
        session.step_seen()

    if hasattr(optimizer, "register_optimizer_step_post_hook"):  # torch 2.0 and later
        optimizer.register_optimizer_step_post_hook(stepped)
    else:
        original = optimizer.Optimizer._optimizer_step_code

        def step_code(self: Any) -> Any:
            result = original(self)
            stepped(self)
            return result

        optimizer.Optimizer._optimizer_step_code = step_code


def _modes(torch: Any, session_of: Any) -> None:
    original = torch.nn.Module.train
    if hasattr(original, MARK):
        return

    @functools.wraps(original)
    def train(self: Any, mode: bool = True) -> Any:
        session = session_of()
        if session is not None:
            session.training_mode = bool(mode)
        return original(self, mode)

    setattr(train, MARK, True)
    torch.nn.Module.train = train
