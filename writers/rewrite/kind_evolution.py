"""Make a value of a copied state a list or a map, and lists and maps a value, in another type if wanted.

Entries of one key and namespace (docs/formats/canonical.md):

    value, reducing, aggregating    key, namespace              → value
    list                            key, namespace              → elements, separated by 2C
    map                             key, namespace, user key    → null mark, user value; an entry for each

The bytes of key and namespace stay. Values are decoded, converted as `type_changes` says, and encoded as rows for a new
state of that kind are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stateproc.codec.arrow_arrays import (
    RowBytes,
    Unencodable,
    entries_of,
    items_of,
    numbers_of,
    row_bytes_of,
    values_array,
)
from stateproc.codec.encoding.sized_writers import concatenate, write_rows
from stateproc.codec.encoding.strings import row_bytes_writer
from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.flink_versions import Release
from stateproc.metadata.backend import StateMetaInfo
from stateproc.model.operator_context import OperatorContext
from stateproc.readers.entry_decoder import decode_entries
from stateproc.readers.entry_programs import LAST_ACCESS_TYPE
from stateproc.readers.row_schema import KEY_GROUP, RAW_KEY, state_fields
from stateproc.readers.state_descriptor import PREFIX, StateDescriptor, StateKind
from stateproc.serializers import LayoutContext, Undecodable, proxied_snapshot
from stateproc.serializers.runtime.ttl import LAST_ACCESS, TtlSerializer
from stateproc.writers.bootstrap.column_types import conformed, listed
from stateproc.writers.bootstrap.keyed_encoder import VALUE, RowEncoder
from stateproc.writers.formats.entry_batches import entry_batch, take_rows
from stateproc.writers.rewrite.merged_header import with_kind
from stateproc.writers.rewrite.row_assignments import Settable, family, plain, sets_whole
from stateproc.writers.rewrite.row_selection import raw_entries, refuse_merged_windows, row_schemas
from stateproc.writers.rewrite.row_update import settable_column
from stateproc.writers.rewrite.transform import exact_read_options
from stateproc.writers.rewrite.type_changes import Change, Matched, TypeChange
from stateproc.writers.rewrite.type_evolution import ValueEvolution, has_row_kind, undecodable, without_columns

SINGLE = (StateKind.VALUE, StateKind.REDUCING, StateKind.AGGREGATING)
KINDS = (*SINGLE, StateKind.LIST, StateKind.MAP)
_COLLECTED = (StateKind.LIST, StateKind.MAP)


@dataclass(frozen=True)
class _Contents:
    """What entries have below key and namespace: the row of each, the user keys of maps, values."""

    rows: npt.NDArray[np.int64]
    user_keys: RowBytes | None
    values: RowBytes


@dataclass(frozen=True)
class KindEvolution:
    """Writes the values of one keyed state as those of a state of another kind. Picklable.

    Attributes:
        state: The state as rows show it.
        after: What it becomes.
        matched: How the columns match.
        context: Settings of layouts.
    """

    state: StateDescriptor
    after: StateDescriptor
    matched: Matched
    context: LayoutContext

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the entries (RAW_ENTRIES) of the new kind; those of one key are not in order.

        Raises CorruptSnapshot, UnsupportedSnapshot, and what `ValueEvolution.of` raises.
        """
        state_id = self.state.state_id

        def entries() -> Iterator[pa.RecordBatch]:
            nonlocal state_id
            for batch in batches:
                if len(batch):
                    state_id = batch.column("state_id")[0].as_py()
                    yield raw_entries(batch)

        for rows in decode_entries(entries(), self.state, self.context, raw_keys=True):
            found = self._with_elements(rows)
            if not len(found):
                continue
            made = self.values.of(found)
            keys = take_rows(row_bytes_of(found.column(RAW_KEY).cast(pa.large_binary())), made.rows)
            if made.user_keys is not None:
                parts = [row_bytes_writer(part) for part in (keys, made.user_keys)]
                keys = write_rows(concatenate(parts), len(made.rows))
            yield entry_batch(numbers_of(found.column(KEY_GROUP))[made.rows], state_id, keys, made.values)

    def info(self, info: StateMetaInfo, release: Release) -> StateMetaInfo:
        """Return the state's entry in the header, as one of the new kind."""
        value, user_key = self.after.value, self.after.user_key
        snapshot = proxied_snapshot(TtlSerializer(value) if self.after.ttl else value, release)
        keys = None if user_key is None else proxied_snapshot(user_key, release)
        return with_kind(info, self.after.kind, snapshot, keys)

    def applied(self, state: StateDescriptor) -> StateDescriptor:
        """Return the state as one of the new kind."""
        return replace(state, kind=self.after.kind, value=self.after.value, user_key=self.after.user_key)

    def __getstate__(self) -> dict[str, object]:
        # Expressions are compiled once in each process.
        return {name: getattr(self, name) for name in ("state", "after", "matched", "context")}

    @cached_property
    def values(self) -> ValueEvolution[_Contents]:
        """What writes the column."""
        rows, temporal = row_schemas(self.state, self.context, flatten=False)
        matched, encoder = self.matched, RowEncoder(self.after, 1, self.context, None, "")
        type_ = encoder.types[VALUE]

        def encode(column: pa.Array, rows: pa.RecordBatch) -> _Contents:
            columns, at = {VALUE: column}, np.arange(len(rows))
            if self.state.ttl:
                columns[LAST_ACCESS] = self._times(rows.column(LAST_ACCESS))
            kept = encoder.kept(columns)
            if kept is not None:
                columns = {name: values.filter(kept) for name, values in columns.items()}
                at = at[kept.to_numpy(zero_copy_only=False)]
            columns[VALUE] = conformed(columns[VALUE], type_) if len(at) else pa.array([], type_)
            try:
                parents, user_keys, values = encoder.contents(columns)
            except Unencodable as error:
                raise Unencodable(error.message, int(at[error.row]) if len(at) else 0) from error
            return _Contents(at if parents is None else at[parents], user_keys, values)

        return ValueEvolution(
            _settable(self.after), rows, temporal, self.after.value, matched.node, matched.assignments, encode
        )

    def _with_elements(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows without those of empty lists, which have no value in Flink either."""
        if self.state.kind is not StateKind.LIST:
            return rows
        return rows.filter(pc.greater(pc.list_value_length(listed(rows.column(VALUE))), 0))

    def _times(self, last_access: pa.Array) -> pa.Array:
        """Return the time of each row's value: of a list or map the newest. Raises Unencodable where there is none."""
        if self.state.kind not in _COLLECTED:
            return last_access
        is_map = pa.types.is_map(last_access.type)
        offsets, times = entries_of(last_access)[::2] if is_map else items_of(last_access)
        if not len(times):
            return pa.array([], LAST_ACCESS_TYPE)
        oldest = np.iinfo(np.int64).min
        numbers = numbers_of(pc.fill_null(times.cast(pa.int64()), oldest))
        newest = np.maximum.reduceat(numbers, offsets[:-1])
        if (newest == oldest).any():
            raise Unencodable("no entry has a time of last access", int(np.flatnonzero(newest == oldest)[0]))
        return values_array(newest).cast(LAST_ACCESS_TYPE)


def kind_evolution(
    state: StateDescriptor, change: Change, operator: OperatorContext, names: Iterable[str]
) -> KindEvolution:
    """Return what makes a keyed state one of another kind; of rows of TopN a map of other keys, too.

    Args:
        state: The state, as a header describes it.
        change: The new kind and type.
        operator: The operator of the snapshot.
        names: The keyed states of the operator.

    Raises:
        InvalidOption: It is not clear what becomes of values; fields are missing, a rename or an expression does not
            fit.
        UnsupportedSnapshot: Values cannot be decoded, or the new type can only be read.
    """
    at, kind = Where(operator=operator.display, state=state.name), change.kind
    assert kind is not None
    if state.kind not in KINDS:
        raise InvalidOption(f"{state.kind.value} become no other state", where=at, advice="leave them out")
    if state.kind is kind and isinstance(change, TypeChange):
        raise InvalidOption(f"the state is {kind.value} state already", where=at, advice="leave out the kind (--kind)")
    if state.name.startswith(PREFIX):
        raise UnsupportedSnapshot(
            "states of Python functions are lists and maps of byte arrays, whatever their kind in the function",
            where=at,
            advice="read the state as rows and write it anew",
        )
    if state.ttl and state.kind in _COLLECTED and kind in _COLLECTED:
        raise InvalidOption(
            f"elements of a {state.kind.value} become those of a {kind.value}, and it is not known which time of last "
            "access each would have",
            where=at,
            advice="disable the time to live before (stateproc ttl disable), and enable it in what this writes",
        )
    if operator.row_names is not None:
        state = operator.row_names.applied(state)
    context = replace(exact_read_options(operator.options, None).context, tail=True)
    after = replace(state, kind=kind, value=change.value, user_key=change.user_key)
    _check_columns(state, after, context, at)
    if all(has_row_kind(one, context, one.kind in _COLLECTED, settable_column(one).column) for one in (state, after)):
        context = replace(context, row_kind=True)
    before, wanted = (row_schemas(one, context, flatten=False)[1] for one in (state, after))
    if isinstance(change, TypeChange):
        is_whole = sets_whole(change.assignments, VALUE)
        as_element = not is_whole and _as_element(state, after, before.field(VALUE).type, wanted.field(VALUE).type, at)
        matched = change.matched(state.value, _settable(after), before, wanted, at, as_element=as_element)
    else:
        matched = change.matched(state.value, _settable(after), before, wanted, at)
    columns = {name for one in matched.assignments for name in one.columns}
    refuse_merged_windows(state, names, columns, at, "an expression")
    words = (f"{state.kind.value} state → {kind.value} state", *matched.changes)
    evolution = KindEvolution(state, after, replace(matched, changes=words), context)
    try:
        evolution.values.check()
    except (InvalidOption, UnsupportedSnapshot) as error:
        raise error.at(operator=operator.display) from error
    return evolution


def _settable(after: StateDescriptor) -> Settable:
    return Settable(after.name, f"{after.kind.value} state", VALUE, flattened=False, nullable=False)


def _check_columns(state: StateDescriptor, after: StateDescriptor, context: LayoutContext, at: Where) -> None:
    """Raise UnsupportedSnapshot for values that cannot be decoded, or are not written."""
    try:
        state_fields(state, context, flatten=False)
    except Undecodable as error:
        raise undecodable(state.value, at) from error
    try:
        state_fields(after, context, flatten=False)
    except Undecodable as error:
        raise without_columns(after.value, error, at) from error


def _as_element(
    state: StateDescriptor, after: StateDescriptor, before: pa.DataType, wanted: pa.DataType, at: Where
) -> bool:
    """Return whether each value becomes the only element of a list. Raises InvalidOption where that is not clear."""
    if after.kind is StateKind.LIST and state.kind in SINGLE:
        difference = _depth(wanted) - _depth(before)
        if difference in (0, 1):
            return difference == 1
    elif (state.kind in SINGLE and after.kind in SINGLE) or (family(before), _depth(before)) == (
        family(wanted),
        _depth(wanted),
    ):
        return False
    examples = {StateKind.LIST: "[value.first, value.second]", StateKind.MAP: "MAP {value.id: value}"}
    example = examples.get(after.kind, "value[-1]")
    raise InvalidOption(
        f"it is not said how {after.kind.value} state of {after.value.type_name} is made of {before}",
        where=at,
        advice=f"give an expression over the old columns, as in --set 'value = {example}'",
    )


def _depth(type_: pa.DataType) -> int:
    """Return how many lists there are around what is no list."""
    type_ = plain(type_)
    return 1 + _depth(type_.value_type) if family(type_) == "list" else 0
