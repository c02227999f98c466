"""Enable or disable time to live of copied states, or drop expired entries. User values stay bytes.

Format: org.apache.flink.runtime.state.ttl.TtlStateFactory.TtlSerializer: i64 last access (ms since the epoch) in front
of a value, of each element of a list, of each value of a map (after its null mark); expiry as in TtlUtils.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.array_types import Longs
from stateproc.codec.arrow_arrays import RowBytes, row_bytes_of, values_array
from stateproc.codec.builder import Builder
from stateproc.codec.encoding.list_encoding import delimited
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer as measured
from stateproc.codec.layouts import Delimited
from stateproc.codec.layouts.strings import SerializedValue
from stateproc.codec.machine import Machine
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.flink_versions import DEFAULT
from stateproc.metadata.backend import StateMetaInfo
from stateproc.readers.changelog.composite_keys import null_form
from stateproc.readers.error_context import placed
from stateproc.readers.row_schema import element_layout
from stateproc.readers.state_descriptor import StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.scalars import LONG
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.wire import Output
from stateproc.writers.formats.entry_batches import gather, take_rows
from stateproc.writers.rewrite.entries_by_key import damage
from stateproc.writers.rewrite.merged_header import TTL, composite_of, raw_composite, versioned_of, with_value

_SIZE = 8
_MARK = 1
_BEFORE_ALL, _AFTER_ALL = -(2**63), 2**63 - 1


class TtlAction(enum.Enum):
    """The change. PURGE: expired entries are dropped, the others stay as they are."""

    ON = "on"
    OFF = "off"
    PURGE = "purge"


@dataclass(frozen=True)
class TtlChange:
    """Changes the time to live of one state's entries. Picklable.

    state: as it was read. last_access: ms since the epoch, what all entries get with ON. expired: with PURGE and OFF,
    entries last used then or before are dropped.
    """

    action: TtlAction
    state: StateDescriptor
    context: LayoutContext
    last_access: int = 0
    expired: int = _BEFORE_ALL

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the changed entries (RAW_ENTRIES), in the same order. Raises CorruptSnapshot, Undecodable."""
        elements = ListElements(self.state, self.context) if self.state.kind is StateKind.LIST else None
        if self.action is TtlAction.OFF and self.expired > _BEFORE_ALL:
            batches = replace(self, action=TtlAction.PURGE).batches(batches)
        for batch in batches:
            values = row_bytes_of(batch.column("value"))
            if elements is not None:
                kept, values = self._lists(values, elements)
            elif self.state.kind is StateKind.MAP:
                kept, values = self._marked(values)
            else:
                kept, values = self._plain(values)
            changed = batch if kept is None else batch.filter(values_array(kept))
            if len(changed):
                index = batch.schema.get_field_index("value")
                yield changed.set_column(index, "value", values.to_arrow())

    def _plain(self, values: RowBytes) -> tuple[npt.NDArray[np.bool_] | None, RowBytes]:
        starts, stops = values.offsets[:-1], values.offsets[1:]
        if self.action is TtlAction.ON:
            return None, _joined(self._times(len(values)), values)
        alive = self._alive(values, starts, stops)
        if self.action is TtlAction.OFF:
            return None, gather(values.data, starts + _SIZE, stops)
        return alive, take_rows(values, np.flatnonzero(alive))

    def _marked(self, values: RowBytes) -> tuple[npt.NDArray[np.bool_] | None, RowBytes]:
        """Values of maps. A null has no time; with a time to live, it is a null in a TtlValue, as Flink puts it."""
        starts, stops = values.offsets[:-1], values.offsets[1:]
        if (stops <= starts).any():
            raise damage(self.state, "a map's value without its null mark")
        present = values.data[starts] == 0
        bodies = np.where(present, starts + _MARK, stops)
        if self.action is TtlAction.ON:
            return None, self._timed(gather(values.data, bodies, stops), present)
        rows = np.flatnonzero(present)
        alive = np.ones(len(values), dtype=np.bool_)
        alive[rows] = self._alive(values, bodies[rows], stops[rows])
        if self.action is TtlAction.OFF:
            return None, self._timeless(gather(values.data, bodies + np.where(present, _SIZE, 0), stops), present)
        return alive, take_rows(values, np.flatnonzero(alive))

    def _timed(self, values: RowBytes, present: npt.NDArray[np.bool_]) -> RowBytes:
        """Add null marks and times to values of maps without null marks."""
        n, null = len(values), self._null
        if not present.all():
            if null is None:
                raise UnsupportedSnapshot(
                    f"a map holds a null, which with a time to live would be a {self.state.value.type_name} that is "
                    "null: its serializer has no form for that, and no Flink job could have put it",
                    where=Where(state=self.state.name),
                    advice="drop such entries: read the state as rows and write it anew",
                )
            values = self._filled(values, ~present, null)
        return _joined(_marks(np.zeros(n, dtype=np.bool_)), self._times(n), values)

    def _timeless(self, values: RowBytes, present: npt.NDArray[np.bool_]) -> RowBytes:
        """Add null marks to values of maps without marks and times; a null in a TtlValue is a null of the map again."""
        null = ~present
        if self._null is not None:
            null |= _equal(values, self._null)
        starts, stops = values.offsets[:-1], values.offsets[1:]
        return _joined(_marks(null), gather(values.data, np.where(null, stops, starts), stops))

    def _filled(self, values: RowBytes, rows: npt.NDArray[np.bool_], form: bytes) -> RowBytes:
        """``values`` with ``form`` in these rows, which have no bytes."""
        data = np.frombuffer(form, dtype=np.uint8)
        offsets = np.zeros(len(values) + 1, dtype=np.int64)
        np.cumsum(np.where(rows, len(data), 0), out=offsets[1:])
        return _joined(values, RowBytes(np.tile(data, int(rows.sum())), offsets))

    @property
    def _null(self) -> bytes | None:
        """A null in the form of the value's own serializer; None if it has none."""
        return null_form(self.state.value.layout(self.context.inner))

    def _lists(self, values: RowBytes, elements: ListElements) -> tuple[npt.NDArray[np.bool_] | None, RowBytes]:
        offsets, items = elements.of(values)
        kept, items = self._plain(items)
        if kept is None:
            return None, delimited(items, offsets)
        before = np.zeros(len(kept) + 1, dtype=np.int64)
        np.cumsum(kept, out=before[1:])
        offsets = before[offsets]
        some = np.diff(offsets) > 0
        return some, take_rows(delimited(items, offsets), np.flatnonzero(some))

    def _times(self, n: int) -> RowBytes:
        times = np.full(n, self.last_access, dtype=">i8")
        return RowBytes(times.view(np.uint8), np.arange(0, _SIZE * n + 1, _SIZE, dtype=np.int64))

    def _alive(self, values: RowBytes, starts: Longs, stops: Longs) -> npt.NDArray[np.bool_]:
        if (stops - starts < _SIZE).any():
            raise damage(self.state, "a value too short for its time of last access")
        times = values.data[starts[:, None] + np.arange(_SIZE)].view(">i8").reshape(-1)
        return np.asarray(times > self.expired)


class ListElements:
    """Splits lists into the bytes of their elements, without decoding them."""

    def __init__(self, state: StateDescriptor, context: LayoutContext) -> None:
        b = Builder()
        self._assemble = Delimited(SerializedValue(element_layout(state, context))).emit(b, False)
        b.op(ops.ROW_END)
        self._machine, self._state = Machine(b.build()), state

    def of(self, values: RowBytes) -> tuple[Longs, RowBytes]:
        """(offsets from 0, int64 [lists + 1]; elements)."""
        starts, ends = values.offsets[:-1][None, :], values.offsets[1:][None, :]
        parts: list[pa.ListArray] = []
        done = 0
        with placed("<raw entries>", int, self._state.name):
            while done < len(values):
                done = self._machine.run(values.data, starts, ends, done, len(values))
                parts.append(self._assemble(self._machine.decoded()))
        lists = pa.concat_arrays(parts) if parts else pa.array([], pa.list_(pa.binary()))
        return np.asarray(lists.offsets, dtype=np.int64), row_bytes_of(lists.values)


def _joined(*parts: RowBytes) -> RowBytes:
    """Concatenate the parts of each row."""
    return write_rows(concatenate([measured(part) for part in parts]), len(parts[0]))


def _marks(null: npt.NDArray[np.bool_]) -> RowBytes:
    """Null marks of maps' values."""
    return RowBytes(null.astype(np.uint8), np.arange(len(null) + 1, dtype=np.int64))


def _equal(values: RowBytes, form: bytes) -> npt.NDArray[np.bool_]:
    """A mask of the values that are these bytes."""
    found: npt.NDArray[np.bool_] = values.lengths == len(form)
    starts = values.offsets[:-1][found]
    found[found] = (values.data[starts[:, None] + np.arange(len(form))] == np.frombuffer(form, np.uint8)).all(axis=1)
    return found


def ttl_on(state: StateDescriptor, context: LayoutContext, last_access: int) -> TtlChange:
    """Entries get a time of last access, ms since the epoch. Raises InvalidOption if they have one."""
    return TtlChange(TtlAction.ON, _of(state, False), context, last_access)


def ttl_off(state: StateDescriptor, context: LayoutContext, ttl: int = 0, now: int = 0) -> TtlChange:
    """Entries lose their times of last access, those last used ``ttl`` ms before ``now`` or earlier are dropped; with
    0 none are. Raises InvalidOption if they have no times.
    """
    expired = max(_BEFORE_ALL, min(now - ttl, _AFTER_ALL)) if ttl else _BEFORE_ALL
    return TtlChange(TtlAction.OFF, _of(state, True), context, expired=expired)


def ttl_purge(state: StateDescriptor, context: LayoutContext, ttl: int, now: int) -> TtlChange:
    """Entries last used ``ttl`` ms before ``now`` (ms since the epoch) or earlier are dropped, as Flink would not show
    them either. Raises InvalidOption without times of last access.
    """
    if ttl <= 0:
        raise InvalidOption(
            f"a time to live of {ttl} ms", where=Where(state=state.name), advice="give it in ms, from 1"
        )
    return TtlChange(TtlAction.PURGE, _of(state, True), context, expired=max(_BEFORE_ALL, min(now - ttl, _AFTER_ALL)))


def _of(state: StateDescriptor, ttl: bool) -> StateDescriptor:
    if state.kind.is_queue:
        raise InvalidOption("timers have no time to live", where=Where(state=state.name))
    if state.ttl is not ttl:
        raise InvalidOption(
            "the state has no time to live" if ttl else "the state has a time to live already",
            where=Where(state=state.name),
            advice="leave its time to live as it is",
        )
    return state


# Wrap serializer snapshots of a state's header in TtlSerializer's, or unwrap them; the snapshots stay bytes.

_TTL_VERSION = 2


def with_ttl(info: StateMetaInfo) -> StateMetaInfo:
    """The state with a time to live, as a job whose descriptor enables it registers it (KEY_VALUE states only).

    Raises InvalidOption if it has one, or is a state that can have none; UnsupportedSnapshot for serializers of no such
    state.
    """
    return _changed(info, lambda value: value if isinstance(value, TtlSerializer) else TtlSerializer(value), _wrapped)


def without_ttl(info: StateMetaInfo) -> StateMetaInfo:
    """The state without a time to live. Raises as `with_ttl`."""
    return _changed(info, lambda value: value.value if isinstance(value, TtlSerializer) else value, _unwrapped)


def _changed(
    info: StateMetaInfo, change: Callable[[Serializer], Serializer], change_bytes: Callable[[bytes, str], bytes]
) -> StateMetaInfo:
    value, kind = info.value_serializer, info.options.get("KEYED_STATE_TYPE")
    if value is None or kind is None:
        raise InvalidOption(
            "a state that can have no time to live",
            where=Where(state=info.name),
            advice="timers fire, and never expire",
        )
    wanted: Serializer
    raw = versioned_of(info.snapshots["VALUE_SERIALIZER"])
    if kind == "LIST" and isinstance(value, ListOf):
        wanted = replace(value, element=change(value.element))
    elif kind == "MAP" and isinstance(value, MapOf):
        wanted = replace(value, value=change(value.value))
    else:
        wanted = change(value)
    if wanted == value:
        raise InvalidOption("the state's time to live is as it should be already", where=Where(state=info.name))
    if kind in ("LIST", "MAP"):
        parts = raw_composite(raw, info.name)
        last = len(parts.parts) - 1
        raw = parts.with_part(last, change_bytes(parts.parts[last], info.name)).versioned()
    else:
        raw = change_bytes(raw, info.name)
    made = with_value(info, raw)
    if made.value_serializer != wanted:
        raise UnsupportedSnapshot(
            f"the time to live of values of the type {value.type_name} cannot be changed in their snapshot alone",
            where=Where(state=info.name),
            advice="read the state as rows and write it anew",
        )
    return made


def _wrapped(value: bytes, state: str) -> bytes:
    long = Output()
    LONG.write_snapshot(long, DEFAULT)
    return composite_of(TTL, _TTL_VERSION, (bytes(long), value)).versioned()


def _unwrapped(value: bytes, state: str) -> bytes:
    return raw_composite(value, state).parts[1]
