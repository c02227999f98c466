"""Names of the fields of SQL rows in a state, from the plan of its query, and the times of its windows.

A serializer's snapshot contains the types of a row's fields but not their names, so that they are `f0`, `f1`, …. What
`stateproc.query_plans` derives from a plan is applied here to a state's descriptor before anything is decoded. Types
and bytes are unaffected.
"""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.codec import temporal as t
from stateproc.codec.arrow_arrays import values_array
from stateproc.codec.layouts import Converted, Layout
from stateproc.errors import QueryPlanWarning
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.structs import TupleOf
from stateproc.serializers.runtime.streaming import Timer
from stateproc.serializers.table.layouts import millis_to_timestamps
from stateproc.serializers.table.serializers import RowData


class ColumnName(str):
    """A column's name, with the family of its SQL type where it is known: of BIGINT, of all lengths of text …"""

    family: str | None = None

    @classmethod
    def of(cls, name: str, written: object) -> ColumnName:
        """Return a name with the family of a type, as a plan writes it: in SQL, or as a JSON object."""
        found = cls(name)
        found.family = type_family(written.get("type") if isinstance(written, dict) else written)
        return found


_FAMILIES = {
    **{kind: kind for kind in ("BOOLEAN", "TINYINT", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE")},
    **{kind: kind for kind in ("ARRAY", "MAP", "ROW")},
    **dict.fromkeys(("INT", "INTEGER"), "INT"),
    **dict.fromkeys(("CHAR", "VARCHAR", "STRING"), "STRING"),
    **dict.fromkeys(("BINARY", "VARBINARY", "BYTES"), "BYTES"),
    **dict.fromkeys(("TIME", "TIME_WITHOUT_TIME_ZONE"), "TIME"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_WITHOUT_TIME_ZONE"), "TIMESTAMP"),
    "TIMESTAMP_WITH_LOCAL_TIME_ZONE": "TIMESTAMP",
}
"""The families of SQL types; those of one family differ in length or precision. Of others nothing is concluded."""
_WORD = re.compile(r"[A-Z]+(?:_[A-Z]+)*")


def type_family(written: object) -> str | None:
    """Return the family of a SQL type; None if it is none of those that are compared."""
    match = _WORD.match(written) if isinstance(written, str) else None
    return None if match is None else _FAMILIES.get(match[0])


Names = tuple[str, ...]
Pair = tuple[str, str]
"""Names of the fields of pairs in values: of the first if it is a row, else it is a ``count``; of the second."""


@dataclass(frozen=True)
class WindowNames:
    """How windows that are namespaces become a start and an end.

    Attributes:
        start: The name of the start.
        end: The name of the end.
        size: The size in ms of windows of which only the end is stored.
        aligned: Whether such windows begin at multiples of ``size`` instead of ``size`` before their end (CUMULATE).
        offset: Of aligned windows, in ms.
    """

    start: str = "window_start"
    end: str = "window_end"
    size: int | None = None
    aligned: bool = False
    offset: int = 0

    def fits(self, namespace: Serializer) -> bool:
        """Return whether namespaces of this serializer are such windows."""
        return namespace.type_name == "TimeWindow" or (namespace.type_name == "Long" and self.size is not None)

    def times(self, windows: pa.Array, mode: str) -> pa.StructArray:
        """Convert windows (structs of start and end, or ends, in ms) to structs of two timestamps."""
        if pa.types.is_struct(windows.type):
            starts, ends = t.ints(windows.field(0)), t.ints(windows.field(1))
        else:
            ends = t.ints(windows)
            starts = self._starts(ends)
        times = [millis_to_timestamps(values_array(part), mode, None) for part in (starts, ends)]
        return pa.StructArray.from_arrays(times, fields=list(self.arrow_type(mode)))

    def _starts(self, ends: Any) -> Any:
        size = np.int64(self.size or 0)
        with np.errstate(over="ignore"):
            if not self.aligned:
                return ends - size
            last = ends - 1
            return last - (last - np.int64(self.offset)) % size

    def arrow_type(self, mode: str) -> pa.DataType:
        """Return the type of `times`."""
        time = pa.string() if mode == "exact" else pa.timestamp("us")
        return pa.struct([pa.field(self.start, time), pa.field(self.end, time)])


@dataclass(frozen=True)
class NamedWindow(Serializer):
    """A window's serializer, whose values are read as times."""

    inner: Serializer
    names: WindowNames

    def layout(self, ctx: LayoutContext) -> Layout:
        mode = ctx.fidelity.coarse
        return Converted(self.inner.layout(ctx), self.names.arrow_type(mode), partial(self.names.times, mode=mode))

    @property
    def length(self) -> int:
        return self.inner.length

    @property
    def type_name(self) -> str:
        return self.inner.type_name


@dataclass(frozen=True)
class StateNames:
    """Names for the rows in one state.

    Of the names that are given for a part of the state, each row in it gets the first that has as many as the row has
    fields, of types that do not contradict the row's; a row that none fits keeps `f0`, `f1`, ….

    Attributes:
        key: Names of a key's fields.
        user_key: Names of the fields of rows in a map's keys.
        value: Names of the fields of rows in values, list elements and map values.
        pair: Names of the fields of pairs in values.
        windows: What namespaces are that contain windows.
        user_key_parts: Names of the rows that are fields of rows in a map's keys, by position; none where they keep
            their own.
    """

    key: tuple[Names, ...] = ()
    user_key: tuple[Names, ...] = ()
    value: tuple[Names, ...] = ()
    pair: Pair | None = None
    windows: WindowNames | None = None
    user_key_parts: tuple[Names, ...] = ()

    def applied(self, state: StateDescriptor) -> StateDescriptor:
        """Return the state with these names."""
        key, namespace = renamed(state.key, self.key), self.namespace(state.namespace)
        if isinstance(state.value, Timer):
            return replace(state, key=key, namespace=namespace, value=Timer(key, namespace))
        user_key = None if state.user_key is None else renamed(state.user_key, self.user_key, parts=self.user_key_parts)
        value = renamed(state.value, self.value, self.pair)
        return replace(state, key=key, namespace=namespace, user_key=user_key, value=value)

    def namespace(self, serializer: Serializer) -> Serializer:
        """Return the namespace's serializer, reading windows as times if it is one of windows."""
        if self.windows is None or not self.windows.fits(serializer):
            return serializer
        return NamedWindow(serializer, self.windows)

    def misfits(self, state: StateDescriptor) -> list[str]:
        """Return of which parts of the state a row has other fields than the plan says, by number or type."""
        parts = [("key", state.key, self.key), ("value", state.value, self.value)]
        if isinstance(state.value, Timer):
            parts = parts[:1]
        if state.user_key is not None:
            parts.append(("map key", state.user_key, self.user_key))
        return [
            f"a {part} {_difference(names, row)}"
            for part, serializer, names in parts
            for row in rows_in(serializer)
            if names and not any(_fits(item, row) for item in names)
        ]


def _fits(names: Names, row: RowData) -> bool:
    """Return whether names can be those of a row's fields."""
    return len(names) == len(row.types) and _contradiction(names, row) is None


def _contradiction(names: Names, row: RowData) -> int | None:
    """Return the first field whose type is of another family than that of the column of its name."""
    for position, (name, type_) in enumerate(zip(names, row.types, strict=True)):
        expected = name.family if isinstance(name, ColumnName) else None
        if expected is not None and type_family(type_.kind) not in (None, expected):
            return position
    return None


def _difference(names: tuple[Names, ...], row: RowData) -> str:
    """Say how a row differs from all that its names could be."""
    for item in names:
        position = _contradiction(item, row) if len(item) == len(row.types) else None
        if position is not None:
            name, type_ = item[position], row.types[position]
            family = name.family if isinstance(name, ColumnName) else ""
            return f"has {type_family(type_.kind)} as field {position}, where the plan has '{name}' of type {family}"
    return f"has {len(row.types)} fields, the plan's {' or '.join(str(len(item)) for item in names)}"


@dataclass(frozen=True)
class OperatorNames:
    """Names for the states of one operator; hashable and picklable.

    Attributes:
        label: What the plan calls the operator, such as ``GroupAggregate[6]``.
        states: A state's name and its names.
        others: The names for all other states, timers among them.
    """

    label: str
    states: tuple[tuple[str, StateNames], ...] = ()
    others: StateNames = StateNames()

    def of(self, state: str) -> StateNames:
        """Return the names for a state."""
        return next((names for name, names in self.states if name == state), self.others)

    def applied(self, state: StateDescriptor) -> StateDescriptor:
        """Return the state with its names."""
        return self.of(state.name).applied(state)

    def warn_of_misfits(self, operator: str, states: Mapping[str, StateDescriptor]) -> None:
        """Warn of states whose rows have other numbers or types of fields than the plan of the query says."""
        problems: dict[str, list[str]] = {}
        for name, state in states.items():
            for problem in self.of(name).misfits(state):
                problems.setdefault(problem, []).append(name)
        for problem, names in problems.items():
            text = (
                f"operator '{operator}': {problem}, so that its fields keep the names f0, f1, … (in {', '.join(names)})"
            )
            warnings.warn(f"{text}; is this the plan that the job ran?", QueryPlanWarning, stacklevel=2)

    @property
    def without_times(self) -> OperatorNames:
        """These names, with windows left as they are stored."""
        states = tuple((name, replace(names, windows=None)) for name, names in self.states)
        return replace(self, states=states, others=replace(self.others, windows=None))


def rows_in(serializer: Serializer) -> Iterator[RowData]:
    """Iterate over the outermost rows that values of the serializer contain."""
    if isinstance(serializer, RowData):
        yield serializer
        return
    for inner in serializer.nested:
        yield from rows_in(inner)


def renamed(
    serializer: Serializer, names: tuple[Names, ...], pair: Pair | None = None, parts: tuple[Names, ...] = ()
) -> Serializer:
    """Return the serializer with the first of ``names`` that fits each of its outermost rows.

    Args:
        names: Names for rows.
        pair: Names for pairs.
        parts: Names for rows that are fields of the rows, by position.
    """
    if isinstance(serializer, RowData):
        fitting = next((item for item in names if _fits(item, serializer)), None)
        return serializer if fitting is None else replace(_with_parts(serializer, parts), names=fitting)
    changes: dict[str, Any] = {}
    if pair is not None and isinstance(serializer, TupleOf) and len(serializer.fields) == 2:
        changes["names"] = (pair[0] if isinstance(serializer.fields[0], RowData) else "count", pair[1])
    for field in dataclasses.fields(serializer):  # type: ignore[arg-type]  # all implementations are dataclasses
        value = getattr(serializer, field.name)
        if isinstance(value, Serializer):
            changes[field.name] = renamed(value, names, pair, parts)
        elif isinstance(value, tuple) and any(isinstance(item, Serializer) for item in value):
            changes[field.name] = tuple(
                renamed(item, names, pair, parts) if isinstance(item, Serializer) else item for item in value
            )
    return replace(serializer, **changes) if changes else serializer  # type: ignore[type-var]


def _with_parts(row: RowData, parts: tuple[Names, ...]) -> RowData:
    """Return a row's serializer with names for the rows among its fields."""
    types = tuple(
        replace(type_, names=part) if part and len(part) == len(type_.names) == len(type_.children) else type_
        for type_, part in zip(row.types, chain(parts, repeat(())), strict=False)
    )
    return replace(row, types=types)
