"""Name the tables of a snapshot: ``"operator"."state"``, states by their name alone, and tables about the snapshot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from stateproc.errors import InvalidOption, SnapshotError, not_found
from stateproc.sql.pushdown import ScanRequest
from stateproc.states.connector_state import opened_state
from stateproc.states.operator import Operator
from stateproc.states.state import State


@dataclass(frozen=True)
class SqlTable:
    """A state, or a small table about the snapshot.

    Attributes:
        name: The table's name.
        schema_name: The operator's uid or id; None for tables about the snapshot.
        state: The state; None for tables about the snapshot.
        make: Makes a table about the snapshot.
    """

    name: str
    schema_name: str | None
    state: State | None = None
    make: Callable[[], pa.Table] | None = field(default=None, repr=False)

    @cached_property
    def opened(self) -> State:
        """The state, with the columns of a well-known source or sink. Raises SnapshotError."""
        assert self.state is not None
        return opened_state(self.state)

    @cached_property
    def _table(self) -> pa.Table:
        assert self.make is not None
        return self.make()

    @property
    def schema(self) -> pa.Schema:
        """The columns. Raises SnapshotError."""
        return self._table.schema if self.state is None else self.opened.schema()

    def reader(self, request: ScanRequest, threads: int | None) -> pa.RecordBatchReader:
        """Return a new stream of what a query needs of the rows. Raises SnapshotError."""
        if self.state is None:
            table = self._table if request.columns is None else self._table.select(list(request.columns))
            return table.to_reader()
        return self.opened.to_reader(
            columns=request.columns, key_groups=request.key_groups, keys=request.keys, threads=threads
        )


class SqlCatalog:
    """All tables of a snapshot; names are compared without case.

    Args:
        operators: The operators.
        find: Finds an operator by uid, uid hash, the beginning of it, or name.
        tables: Tables about the snapshot, by name.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        find: Callable[[str], Operator],
        tables: Mapping[str, Callable[[], pa.Table]],
    ) -> None:
        self._operators, self._find = operators, find
        self.snapshot_tables = tuple(SqlTable(name, None, None, make) for name, make in tables.items())

    @cached_property
    def states(self) -> tuple[SqlTable, ...]:
        """The states; of two states of an operator with one name the first."""
        found: dict[tuple[str, str], SqlTable] = {}
        for operator in self._operators:
            for state in operator.states:
                place = (operator.display.casefold(), state.name.casefold())
                found.setdefault(place, SqlTable(state.name, operator.display, state))
        return tuple(found.values())

    @cached_property
    def unique_states(self) -> dict[str, SqlTable]:
        """The states that no other state, nor a table about the snapshot, shares its name with."""
        counts = Counter(table.name.casefold() for table in self.states)
        taken = {table.name for table in self.snapshot_tables}
        return {
            name: table for table in self.states if counts[name := table.name.casefold()] == 1 and name not in taken
        }

    def find(self, schema_name: str | None, name: str) -> SqlTable | None:
        """Find a table by its name in a query.

        Raises:
            InvalidOption: Several operators have a state of that name.
            NotFound: The operator has no such state.
            SnapshotError: It may have one, in a file whose header cannot be read.
        """
        wanted = name.casefold()
        if schema_name is None:
            for table in self.snapshot_tables:
                if table.name == wanted:
                    return table
            same = [table for table in self.states if table.name.casefold() == wanted]
            if len(same) > 1:
                names = ", ".join(f'"{table.schema_name}"."{table.name}"' for table in same)
                raise InvalidOption(f"{len(same)} operators have a state {name!r}", advice=f"name one: {names}")
            return same[0] if same else None
        display = self._display(schema_name)
        if display is None:
            return None
        for table in self.states:
            if table.schema_name == display and table.name.casefold() == wanted:
                return table
        problems = [
            problem for operator in self._operators if operator.display == display for problem in operator.problems
        ]
        if problems:
            raise problems[0]
        names_of = (table.name for table in self.states if table.schema_name == display)
        raise not_found("state", name, names_of, f"operator '{display}'")

    def _display(self, schema_name: str) -> str | None:
        for operator in self._operators:
            if operator.display.casefold() == schema_name.casefold():
                return operator.display
        try:
            wanted = self._find(schema_name).operator_id
        except SnapshotError:
            return None
        return next(operator.display for operator in self._operators if operator.operator_id == wanted)
