"""Minibatches are counted right for loops of any shape: many small ones, in this process, without a stopwatch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, TensorDataset

from edgetrain.analysis import TrainingLoop
from edgetrain.inside import session
from tests.inside import records


def loader(batches: int, **arguments: Any) -> Any:
    return DataLoader(TensorDataset(torch.randn(2 * batches, 4)), batch_size=2, **arguments)


class Trainee:
    """A network, two optimizers, and the steps that loops are made of."""

    def __init__(self) -> None:
        self.network, self.other = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
        self.first = torch.optim.SGD(self.network.parameters(), lr=1e-3)
        self.second = torch.optim.Adam(self.other.parameters())

    def loss(self, batch: Any, network: Any = None) -> Any:
        return (network or self.network)(batch[0]).square().mean()

    def train(self, batch: Any) -> None:
        self.loss(batch).backward()
        self.first.step()
        self.first.zero_grad()

    def gan(self, batch: Any) -> None:
        self.train(batch)
        self.loss(batch, self.other).backward()
        self.second.step()


Loop = Callable[[Trainee], tuple[int, int]]  # returns minibatches and those of them that were trained
LOOPS: dict[str, Loop] = {}


def loop(function: Loop) -> Loop:
    LOOPS[function.__name__] = function
    return function


@pytest.mark.parametrize("name", LOOPS)
def test_minibatches_are_counted_as_the_loop_turned(name: str, tmp_path: Path) -> None:
    recording = session.begin(str(tmp_path), steps=True)
    try:
        expected, trained = LOOPS[name](Trainee())
    finally:
        recording.end()
    found = records.loop(tmp_path)
    check_laws(found)
    marked = len(found.parts) if found.parts.trained is None else int(found.parts.trained.sum())
    assert (len(found.parts), marked) == (expected, trained)


def check_laws(found: TrainingLoop) -> None:
    parts = found.parts
    whole = parts.stall_s + parts.copy_s + parts.compute_s + parts.overhead_s
    assert abs(whole - parts.e2e_s).max() < 1e-9
    for part in (parts.stall_s, parts.compute_s, parts.overhead_s, parts.e2e_s):
        assert part.min() >= 0
    assert (parts.begin_us[1:] >= parts.done_us[:-1]).all()
    assert parts.hidden_s.sum() < 1e-6  # nothing covers a wait on a CPU
    assert sum(one.stop - one.first for one in found.epochs) == len(parts)
    assert all(one.begin_us <= one.end_us for one in found.epochs)
    assert all(a.end_us <= b.begin_us for a, b in itertools.pairwise(found.epochs))


@loop
def plain(t: Trainee) -> tuple[int, int]:
    for _ in range(3):
        for batch in loader(5):
            t.train(batch)
    return 15, 15


@loop
def one_step(t: Trainee) -> tuple[int, int]:
    for batch in loader(1):
        t.train(batch)
    return 1, 1


@loop
def several_passes_over_the_same_loader(t: Trainee) -> tuple[int, int]:
    data = loader(4)
    for _ in range(3):
        for batch in data:
            t.train(batch)
    return 12, 12


@loop
def three_in_step(t: Trainee) -> tuple[int, int]:
    for one, two, three in zip(loader(6), loader(6), loader(6), strict=True):
        t.train([one[0] + two[0] + three[0]])
    return 6, 6


@loop
def in_step_first_is_shorter(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        for one, two in zip(loader(4), loader(7), strict=False):
            t.train([one[0] + two[0]])
    return 8, 8


@loop
def in_step_second_is_shorter_and_some_are_skipped(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        for index, (one, two) in enumerate(zip(loader(7), loader(5), strict=False)):
            if index != 3:
                t.train([one[0] + two[0]])
    return 10, 8


@loop
def looks_two_ahead(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        waiting = []
        for batch in loader(9):
            waiting.append(batch)
            if len(waiting) > 2:
                t.train(waiting.pop(0))
        for batch in waiting:
            t.train(batch)
    return 18, 18


@loop
def looks_ahead_and_trains_two_networks(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        current = None
        for following in loader(7):
            if current is not None:
                t.gan(current)
            current = following
        t.gan(current)
    return 14, 14


@loop
def looks_ahead_by_two_places_and_trains_two_networks(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        batches = iter(loader(7))
        following = next(batches, None)
        while following is not None:
            current, following = following, next(batches, None)
            t.gan(current)
    return 14, 14


@loop
def looks_ahead_in_passes_of_one(t: Trainee) -> tuple[int, int]:
    for _ in range(4):
        current = None
        for following in loader(1):
            if current is not None:
                t.train(current)
            current = following
        t.train(current)
    return 4, 4


@loop
def groups_of_four_with_a_rest(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        batches = iter(loader(10))
        while True:
            group = list(itertools.islice(batches, 4))
            for batch in group:
                t.loss(batch).backward()
            if len(group) < 4:
                break
            t.first.step()
    return 20, 20


@loop
def groups_that_make_one_batch(t: Trainee) -> tuple[int, int]:
    """Four fetched from one place and trained as one: the first three look as if they were skipped."""
    batches = iter(loader(12))
    for _ in range(3):
        t.train([torch.cat([next(batches)[0] for _ in range(4)])])
    return 12, 3


@loop
def every_second_is_skipped(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        for index, batch in enumerate(loader(9)):
            if index % 2:
                t.train(batch)
    return 18, 8


@loop
def the_last_is_skipped(t: Trainee) -> tuple[int, int]:
    for _ in range(3):
        for index, batch in enumerate(loader(5)):
            if index < 4:
                t.train(batch)
    return 15, 12


@loop
def skipped_across_a_restart(t: Trainee) -> tuple[int, int]:
    data = loader(5)
    batches = iter(data)
    for step in range(14):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(data)
            batch = next(batches)
        if step % 5 not in (4, 0):
            t.train(batch)
    return 14, 9


@loop
def sums_of_losses(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        total: Any = 0
        for index, batch in enumerate(loader(8)):
            total = total + t.loss(batch)
            if index % 4 == 3:
                total.backward()
                t.first.step()
                total = 0
    return 16, 16


@loop
def sums_of_losses_of_pairs(t: Trainee) -> tuple[int, int]:
    total: Any = 0
    for index, (one, two) in enumerate(zip(loader(8), loader(8), strict=True)):
        total = total + t.loss([one[0] + two[0]])
        if index % 4 == 3:
            total.backward()
            t.first.step()
            total = 0
    return 8, 8


@loop
def losses_are_summed_up_for_the_log(t: Trainee) -> tuple[int, int]:
    running: Any = 0
    for batch in loader(8):
        loss = t.loss(batch)
        loss.backward()
        t.first.step()
        running = running + loss * 2
    return 8, 8


@loop
def alternating_with_skips(t: Trainee) -> tuple[int, int]:
    tasks = [iter(loader(8)), iter(loader(8))]
    for step in range(16):
        batch = next(tasks[step % 2])
        if step not in (5, 6, 11):
            t.train(batch)
    return 16, 13


@loop
def two_losses_each_with_its_own_batch(t: Trainee) -> tuple[int, int]:
    """Two loaders, a backward pass each, one step: two trainings, so two turns."""
    for one, two in itertools.zip_longest(iter(loader(6)), iter(loader(6))):
        t.loss(one).backward()
        t.loss(two).backward()
        t.first.step()
    return 6, 6


@loop
def negatives_drawn_until_good(t: Trainee) -> tuple[int, int]:
    negatives = iter(loader(40))
    for index, batch in enumerate(loader(8)):
        for _ in range(1 + index % 4):
            negative = next(negatives)
        t.train([batch[0] - negative[0]])
    return 8, 8


@loop
def peeks_in_every_epoch(t: Trainee) -> tuple[int, int]:
    data = loader(6)
    for _ in range(3):
        next(iter(data))
        for batch in data:
            t.train(batch)
    return 18, 18


@loop
def evaluates_without_saying_so(t: Trainee) -> tuple[int, int]:
    held_out = loader(3)
    for _ in range(2):
        for batch in loader(5):
            t.train(batch)
        for batch in held_out:
            t.loss(batch).item()
    return 10, 10


@loop
def evaluates_in_mode_only(t: Trainee) -> tuple[int, int]:
    train, held_out = loader(6), loader(3)
    for _ in range(2):
        for index, batch in enumerate(train):
            t.network.train()
            t.train(batch)
            if index % 3 == 2:
                t.network.eval()
                for other in held_out:
                    t.loss(other).item()
        t.network.train()
    return 12, 12


@loop
def attacks_in_evaluation(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        t.network.train()
        for batch in loader(6):
            t.train(batch)
        t.network.eval()
        for batch in loader(2):
            t.loss([batch[0].requires_grad_()]).backward()
            t.first.zero_grad()
    return 12, 12


@loop
def computes_on_the_test_set_after_each_epoch(t: Trainee) -> tuple[int, int]:
    held_out = torch.randn(10, 4)
    for _ in range(3):
        for batch in loader(4):
            t.train(batch)
        t.network(held_out).mean().item()  # gradients are on, but nothing is trained
    return 12, 12


@loop
def a_last_step_after_the_loop(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        for index, batch in enumerate(loader(7)):
            t.loss(batch).backward()
            if index % 3 == 2:
                t.first.step()
        t.first.step()
    return 14, 14


@loop
def endless(t: Trainee) -> tuple[int, int]:
    def forever(data: Any) -> Iterator[Any]:
        while True:
            yield from data

    for _, batch in zip(range(13), forever(loader(5)), strict=False):
        t.train(batch)
    return 13, 13


@loop
def chained(t: Trainee) -> tuple[int, int]:
    for batch in itertools.chain(loader(3), loader(4)):
        t.train(batch)
    return 7, 7


@loop
def repeated_from_memory(t: Trainee) -> tuple[int, int]:
    for _, batch in zip(range(17), itertools.cycle(loader(5)), strict=False):
        t.train(batch)
    return 17, 17


@loop
def repeated_from_memory_with_accumulation(t: Trainee) -> tuple[int, int]:
    for index, batch in zip(range(20), itertools.cycle(loader(6)), strict=False):
        t.loss(batch).backward()
        if index % 4 == 3:
            t.first.step()
    return 20, 20


@loop
def repeated_from_memory_two_networks(t: Trainee) -> tuple[int, int]:
    for _, batch in zip(range(12), itertools.cycle(loader(5)), strict=False):
        t.gan(batch)
    return 12, 12


@loop
def read_into_a_list_first(t: Trainee) -> tuple[int, int]:
    batches = list(loader(6))
    for _ in range(3):
        for batch in batches:
            t.train(batch)
    return 18, 18


@loop
def no_loader(t: Trainee) -> tuple[int, int]:
    for _ in range(9):
        t.train([torch.randn(2, 4)])
    return 9, 9


@loop
def no_loader_two_networks(t: Trainee) -> tuple[int, int]:
    for _ in range(9):
        t.gan([torch.randn(2, 4)])
    return 9, 9


@loop
def no_loader_with_accumulation(t: Trainee) -> tuple[int, int]:
    for _ in range(6):
        for _ in range(4):
            t.loss([torch.randn(2, 4)]).backward()
        t.first.step()
    return 6, 6


@loop
def no_optimizer(t: Trainee) -> tuple[int, int]:
    for batch in loader(6):
        t.loss(batch).backward()
        with torch.no_grad():
            for parameter in t.network.parameters():
                parameter -= 1e-3 * parameter.grad
    return 6, 6


@loop
def trains_twice_on_each(t: Trainee) -> tuple[int, int]:
    for batch in loader(6):
        t.train(batch)
        t.train(batch)
    return 6, 6


@loop
def a_loader_inside_a_dataset(t: Trainee) -> tuple[int, int]:
    inner = loader(4)

    class Nested(torch.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            for (batch,) in inner:
                yield batch

    for batch in DataLoader(Nested(), batch_size=None):
        t.train([batch])
    return 4, 4


@loop
def steps_of_different_loops_one_after_the_other(t: Trainee) -> tuple[int, int]:
    for batch in loader(4):
        t.train(batch)
    for one, two in zip(loader(3), loader(3), strict=True):
        t.train([one[0] + two[0]])
    for _ in range(5):
        t.train(next(iter(loader(4))))
    return 12, 12


@loop
def resumed_in_mid_epoch(t: Trainee) -> tuple[int, int]:
    for epoch in range(2):
        for index, batch in enumerate(loader(8)):
            if epoch == 0 and index < 5:
                continue
            t.train(batch)
    return 16, 11


@loop
def two_batches_by_one_statement(t: Trainee) -> tuple[int, int]:
    batches = iter(loader(12))
    for _ in range(6):
        one, two = next(batches), next(batches)
        t.train([one[0] - two[0]])
    return 6, 6


@loop
def critic_and_generator(t: Trainee) -> tuple[int, int]:
    """Five critic steps on a batch each, then a generator step without one: it belongs to the fifth."""
    batches = iter(loader(20))
    for _ in range(4):
        for _ in range(5):
            t.train(next(batches))
        t.loss([torch.randn(2, 4)], t.other).backward()
        t.second.step()
    return 20, 20


@loop
def overfits_one_batch(t: Trainee) -> tuple[int, int]:
    """One batch is fetched once and for all: each step is a turn."""
    batch = next(iter(loader(5)))
    for _ in range(12):
        t.train(batch)
    return 12, 12


@loop
def fetches_the_whole_dataset_first(t: Trainee) -> tuple[int, int]:
    (everything,) = next(iter(DataLoader(TensorDataset(torch.randn(12, 4)), batch_size=12)))
    for _ in range(3):
        for part in everything.split(2):
            t.train([part])
    return 18, 18


@loop
def trains_often_on_the_whole_dataset_of_each_epoch(t: Trainee) -> tuple[int, int]:
    for _ in range(3):
        for batch in loader(1):
            for _ in range(4):
                t.train(batch)
    return 3, 3


@loop
def no_loader_one_network_after_the_other(t: Trainee) -> tuple[int, int]:
    for _ in range(7):
        t.train([torch.randn(2, 4)])
    for _ in range(5):
        t.loss([torch.randn(2, 4)], t.other).backward()
        t.second.step()
    return 12, 12


@loop
def no_loader_generator_now_and_then(t: Trainee) -> tuple[int, int]:
    for step in range(20):
        if step % 5 == 0:
            t.train([torch.randn(2, 4)])
        t.loss([torch.randn(2, 4)], t.other).backward()
        t.second.step()
    return 20, 20


@loop
def no_loader_several_members(t: Trainee) -> tuple[int, int]:
    members = [torch.nn.Linear(4, 1) for _ in range(4)]
    optimizers = [torch.optim.SGD(member.parameters(), lr=1e-3) for member in members]
    for _ in range(6):
        for member, optimizer in zip(members, optimizers, strict=True):
            t.loss([torch.randn(2, 4)], member).backward()
            optimizer.step()
    return 6, 6


@loop
def a_backward_pass_for_each_loader(t: Trainee) -> tuple[int, int]:
    """One step for two backward passes: one turn of the loop."""
    labelled, unlabelled = iter(loader(8)), iter(loader(8))
    for _ in range(8):
        t.loss(next(labelled)).backward()
        t.loss(next(unlabelled)).backward()
        t.first.step()
    return 8, 8


@loop
def support_and_query(t: Trainee) -> tuple[int, int]:
    support, query = iter(loader(8)), iter(loader(8))
    for _ in range(8):
        torch.autograd.grad(t.loss(next(support)), list(t.network.parameters()))
        t.train(next(query))
    return 8, 8


@loop
def two_loaders_by_turns_with_accumulation(t: Trainee) -> tuple[int, int]:
    tasks = [iter(loader(8)), iter(loader(8))]
    for step in range(16):
        t.loss(next(tasks[step % 2])).backward()
        if step % 4 == 3:
            t.first.step()
    return 16, 16


@loop
def bad_losses_are_skipped(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        for index, batch in enumerate(loader(10)):
            loss = t.loss(batch)
            if index % 4 == 1:
                continue
            loss.backward()
            t.first.step()
    return 20, 14


@loop
def features_of_several_batches_make_a_loss(t: Trainee) -> tuple[int, int]:
    features: list[Any] = []
    for index, batch in enumerate(loader(12)):
        features.append(t.network(batch[0]))
        if index % 3 == 2:
            torch.cat(features).square().mean().backward()
            t.first.step()
            features = []
    return 12, 12


@loop
def evaluates_between_steps_without_saying_so(t: Trainee) -> tuple[int, int]:
    held_out = loader(3)
    for _ in range(2):
        for index, batch in enumerate(loader(9)):
            t.train(batch)
            if index % 4 == 2:
                for other in held_out:
                    t.loss(other).item()
    return 18, 18


@loop
def evaluates_between_steps_with_gradients_off_for_the_network_only(t: Trainee) -> tuple[int, int]:
    held_out = loader(3)
    for index, batch in enumerate(loader(9)):
        t.train(batch)
        if index % 4 == 2:
            for other in held_out:
                with torch.no_grad():
                    t.loss(other)
    return 9, 9


@loop
def no_loader_but_for_evaluation(t: Trainee) -> tuple[int, int]:
    held_out = loader(3)
    for step in range(12):
        t.train([torch.randn(2, 4)])
        if step % 4 == 2:
            with torch.no_grad():
                for batch in held_out:
                    t.loss(batch)
    return 12, 12


@loop
def no_loader_but_for_evaluation_that_is_left(t: Trainee) -> tuple[int, int]:
    held_out = loader(9)
    for step in range(12):
        t.train([torch.randn(2, 4)])
        if step % 4 == 2:
            with torch.no_grad():
                for index, batch in enumerate(held_out):
                    t.loss(batch)
                    if index == 2:
                        break
    return 12, 12


@loop
def looks_ahead_without_gradients(t: Trainee) -> tuple[int, int]:
    for _ in range(2):
        batches = iter(loader(7))

        @torch.no_grad()
        def fetch(batches: Any = batches) -> Any:
            return next(batches, None)

        following = fetch()
        while following is not None:
            current, following = following, fetch()
            t.train(current)
    return 14, 14


@loop
def one_iterator_for_all_epochs(t: Trainee) -> tuple[int, int]:
    data = OneIterator(TensorDataset(torch.randn(10, 4)), batch_size=2)
    for _ in range(3):
        for batch in data:
            t.train(batch)
    return 15, 15


class OneIterator(DataLoader):
    """As some trainers of detectors have it: workers are never stopped, and an epoch is so many batches."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.iterator = super().__iter__()

    def __iter__(self) -> Iterator[Any]:
        for _ in range(5):
            batch = next(self.iterator, None)
            if batch is None:
                self.iterator = super().__iter__()
                batch = next(self.iterator)
            yield batch


def test_a_loader_that_keeps_its_iterator_has_an_epoch_each_time_it_is_iterated(tmp_path: Path) -> None:
    trainee = Trainee()
    recording = session.begin(str(tmp_path), steps=True)
    try:
        data = OneIterator(TensorDataset(torch.randn(40, 4)), batch_size=2)
        for _ in range(3):
            for batch in data:
                trainee.train(batch)
    finally:
        recording.end()
    assert [epoch.stop - epoch.first for epoch in records.loop(tmp_path).epochs] == [5, 5, 5]
