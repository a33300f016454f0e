"""The connection to a fleet's scheduler: submits tasks to boards, survives the loss of worker and scheduler."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from edgetrain.errors import EdgetrainError, FleetError
from edgetrain.fleet import board_work
from edgetrain.fleet.inventory import FleetBoard
from edgetrain.fleet.processes import Fleet
from edgetrain.fleet.records import ReadParts

CONNECT_S = 60.0  # a scheduler that was killed is back in a few seconds
REFRESH_S = 0.25
FETCH_S = 60.0
RESULT_S = 1.0


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """How a task ended: with its text, with the error that it raised, or (both None) lost with its worker."""

    text: str | None = None
    error: str | None = None

    @property
    def lost(self) -> bool:
        """Whether the worker or the scheduler was lost."""
        return self.text is None and self.error is None


class Pending:
    """A task under way."""

    def __init__(self, link: FleetLink, future: Any, generation: int, board: str, address: str) -> None:
        self._link, self._future, self._generation = link, future, generation
        self._board, self._address = board, address

    @property
    def ended(self) -> bool:
        """Whether it ended, well or not; a lost connection is an end, and so is a board that has another worker.

        A task that is bound to a worker that died in the meantime would stay pending for ever.
        """
        if self._future is None or self._generation != self._link.generation or self._future.status != "pending":
            return True
        return not self._link.is_worker(self._board, self._address)

    def answer(self) -> TaskAnswer:
        """Return how the task ended."""
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        future, until_s = self._future, time.monotonic() + FETCH_S
        while True:
            if future is None or self._generation != self._link.generation or future.status in ("pending", "cancelled"):
                return TaskAnswer()
            try:
                # A worker that was killed after it ended the task takes the result with it: never wait long for that.
                return TaskAnswer(str(future.result(timeout=RESULT_S)))
            except (asyncio.TimeoutError, TimeoutError):
                if time.monotonic() > until_s or not self._link.is_worker(self._board, self._address):
                    return TaskAnswer()
            except (KilledWorker, FutureCancelledError, ConnectionError, CommClosedError):
                return TaskAnswer()
            except Exception as error:  # raised by the task itself, on the board
                text = str(error)
                own = isinstance(error, EdgetrainError)
                return TaskAnswer(error=text if own else f"{type(error).__name__}: {text}")


class FleetLink:
    """A client of the scheduler that reconnects."""

    def __init__(self, fleet: Fleet, now_s: Callable[[], float] = time.monotonic) -> None:
        self.fleet, self._now_s = fleet, now_s
        self.generation = 0
        self._client: Any = None
        self._workers: dict[str, str] = {}  # board: address of its worker
        self._seen_s: dict[str, float] = {}
        self._read_s = -REFRESH_S
        self._start_s = now_s()

    def __enter__(self) -> FleetLink:
        # Dask prints a traceback for every lost connection; here that is an ordinary event, and we report it ourselves.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            self._client.close(timeout=2)

    def _connect(self) -> None:
        from distributed import Client
        from distributed.security import Security

        tls = self.fleet.tls()
        security = Security(
            tls_ca_file=str(tls.ca), tls_client_cert=str(tls.cert), tls_client_key=str(tls.key), require_encryption=True
        )
        self.generation += 1
        self._workers = {}
        until_s = self._now_s() + CONNECT_S
        while True:
            try:
                self._client = Client(self.fleet.address, security=security, timeout=5, set_as_default=False)
                return
            except (OSError, asyncio.TimeoutError) as error:
                if self._now_s() > until_s:
                    raise EdgetrainError(
                        f"the fleet's scheduler at {self.fleet.address} does not answer; see "
                        f"{self.fleet.home}/run/scheduler.log"
                    ) from error
                time.sleep(0.2)

    def _refresh(self) -> None:
        """Read which workers there are, a few times a second; connect anew where the scheduler was lost."""
        if self._now_s() - self._read_s < REFRESH_S:
            return
        try:
            if self._client.status != "running":
                raise OSError("not connected")
            # Asked of the scheduler itself: what the client keeps is seconds old.
            info = self._client.sync(self._client.scheduler.identity, n_workers=-1)
        except Exception:  # whatever Dask raises here, the connection is of no use
            self._client.close(timeout=1)
            self._connect()
            return
        self._workers = {str(one["name"]): address for address, one in info["workers"].items()}
        self._read_s = self._now_s()
        for name in self._workers:
            self._seen_s[name] = self._read_s

    def has(self, board: str) -> bool:
        """Whether the board's worker is there."""
        self._refresh()
        return board in self._workers

    def is_worker(self, board: str, address: str) -> bool:
        """Whether the board's worker is still the one at this address."""
        self._refresh()
        return self._workers.get(board) == address

    def disconnected_s(self, board: str) -> float:
        """Return how long the board has been disconnected, in s."""
        self._refresh()
        return 0.0 if board in self._workers else self._now_s() - self._seen_s.get(board, self._start_s)

    def submit(self, board: str, key: str, request: str) -> Pending:
        """Send an experiment to a board."""
        return self._submit(board, key, {"board": 1}, board_work.carry_out, request)

    def _submit(self, board: str, key: str, resources: Any, function: Callable[..., Any], *arguments: str) -> Pending:
        address = self._workers.get(board, board)
        try:
            future = self._client.submit(
                function, *arguments, key=key, workers=[address], allow_other_workers=False, resources=resources,
                retries=0, pure=False,
            )  # fmt: skip
        except Exception:  # the connection was lost in between
            return Pending(self, None, -1, board, address)
        return Pending(self, future, self.generation, board, address)

    def ask(self, board: str, name: str, function: Callable[..., Any], *arguments: str) -> str:
        """Run a short task on a board and return its text; ConnectionError where the board was lost.

        An error that the task raised is a FleetError.
        """
        if not self.has(board):
            raise ConnectionError(f"{board} is not connected")
        pending = self._submit(board, f"{name}-{time.time_ns()}", None, function, *arguments)
        until_s = self._now_s() + FETCH_S
        while not pending.ended and self._now_s() < until_s:
            time.sleep(0.005)
        answer = pending.answer()
        if answer.error is not None:
            raise FleetError(answer.error, host=board)
        if answer.text is None:
            raise ConnectionError(f"{board} was lost")
        return answer.text

    def reader(self, board: FleetBoard, run: str) -> ReadParts:
        """Return what reads parts of a record on a board."""
        folder = self.fleet.folder_of(board)
        return lambda wanted: self.ask(board.name, "read", board_work.read_parts, folder, run, wanted)

    def restore(self, board: FleetBoard, wait_s: float, changed: bool = True) -> str | None:
        """Put a board's power mode back; waits for a board that is disconnected. Returns why it was not done."""
        until_s = self._now_s() + wait_s
        while True:
            try:
                folder, mark = self.fleet.folder_of(board), "modes" if changed else ""
                self.ask(board.name, "restore", board_work.restore_board, folder, board.device, mark)
                return None
            except FleetError as error:
                return str(error)
            except ConnectionError as error:
                if self._now_s() > until_s:
                    return f"{error}, for more than {wait_s:g} s"
                time.sleep(0.1)
