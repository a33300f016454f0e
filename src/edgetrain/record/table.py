"""Tables: columns of equal length, by name. Streams on disk and arrays in memory share one interface."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from edgetrain.documents import to_document
from edgetrain.errors import UsageError

if TYPE_CHECKING:
    import pandas

NULL = -1  # a missing integer
Column = NDArray[Any]
Windows = Sequence[tuple[int, int]]  # first and last instant of each, in µs


@dataclass(frozen=True, slots=True)
class Condensed:
    """Some columns of a table; rows that are alike in them may be one row here, which represents `count` of them."""

    first: NDArray[np.int64]  # the first row of the table that is represented
    count: NDArray[np.int64]
    columns: ArrayTable


class Table(abc.ABC):
    """Columns of equal length. A missing integer is -1, a missing float is NaN.

    `len(table)` is the number of rows; iterating gives the column names, as in a data frame. A column is decoded when
    it is first asked for and then kept; `once` does not keep it, which matters for runs of millions of minibatches.
    """

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def __getitem__(self, name: str) -> Column: ...

    def once(self, name: str) -> Column:
        """Return a column that will not be asked for again."""
        return self[name]

    def parts(self) -> Sequence[Table]:
        """Return the tables this one is joined of, for sums that need not see them joined."""
        return (self,)

    def near(self, instant: str, windows_us: Windows) -> Table:
        """Return a table with at least the rows whose `instant` lies in one of the windows, and perhaps more."""
        return self

    def during(self, instant: str, windows_us: Windows) -> ArrayTable:
        """Return exactly the rows whose `instant` lies in one of the windows."""
        some = self.near(instant, windows_us)
        at = some[instant]
        keep = np.zeros(len(at), bool)
        for start, stop in windows_us:
            keep |= (at >= start) & (at <= stop)
        return some.take(np.flatnonzero(keep))

    def condensed(
        self, names: Sequence[str], constant: Sequence[str], present: Sequence[str], equal: Mapping[str, int]
    ) -> Condensed:
        """Return some columns with stretches of rows condensed, where the table knows of such without decoding them.

        In a stretch the `constant` columns do not change, those in `present` have no missing values, and those in
        `equal` have that value; other columns have the value of some row of the stretch.
        """
        rows = len(self)
        columns = ArrayTable({name: self[name] for name in names if name in self})
        return Condensed(np.arange(rows), np.ones(rows, np.int64), columns)

    def constant(self, name: str) -> int | None:
        """Return the value that an integer column has in every row, where that is known without decoding it."""
        return None

    def take(self, rows: NDArray[np.integer[Any]] | NDArray[np.bool_] | slice) -> ArrayTable:
        """Return some of the rows."""
        return ArrayTable({name: self[name][rows] for name in self.names})

    def get(self, name: str) -> Column | None:
        """Return a column, or None where the table has no such column."""
        return self[name] if name in self.names else None

    def items(self) -> Iterator[tuple[str, Column]]:
        """Return the columns with their names."""
        return ((name, self[name]) for name in self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the table as a pandas data frame; missing integers become <NA>."""
        library = import_pandas()
        columns: dict[str, Column] = {}
        for name, column in self.items():
            if column.dtype.kind in "iu" and len(column) and column.min() < 0:
                columns[name] = library.array(column, dtype="Int64")
                columns[name][column == NULL] = library.NA
            else:
                columns[name] = column
        return library.DataFrame(columns)


def import_pandas() -> Any:
    """Return pandas; where it is not installed, say how to get it."""
    try:
        import pandas
    except ImportError as error:
        raise UsageError("to_pandas needs pandas; install it with: pip install 'edgetrain[pandas]'") from error
    return pandas


def frame_of(rows: Sequence[Any]) -> pandas.DataFrame:
    """Return dataclasses as a pandas data frame, one row each; a field of a field is a column `outer.inner`."""
    return import_pandas().json_normalize([to_document(row) for row in rows])


class ArrayTable(Table):
    """A table whose columns are arrays in memory."""

    def __init__(self, columns: Mapping[str, Column] | None = None) -> None:
        self._columns = dict(columns or {})
        lengths = {len(column) for column in self._columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of different lengths: {sorted(lengths)}")
        self._rows = lengths.pop() if lengths else 0

    @classmethod
    def from_rows(cls, specs: Sequence[tuple[str, str]], rows: Sequence[Sequence[float | int | None]]) -> ArrayTable:
        """Make a table of rows; `specs` are names and encodings as a stream has them."""
        columns: dict[str, Column] = {}
        for place, (name, encoding) in enumerate(specs):
            values = [row[place] for row in rows]
            if encoding in ("f4", "f8"):
                columns[name] = np.array([np.nan if value is None else value for value in values], f"<{encoding}")
            else:
                columns[name] = np.array([NULL if value is None else value for value in values], np.int64)
        return cls(columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._columns)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]
