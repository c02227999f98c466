"""Give an aggregate the state that it has with DISTINCT split, or without; `split_conversion` says what that is.

Values that DISTINCT has seen stay the bytes they are, under a key with their bucket, or without. So does the key of the
number of null, whose bucket is null.
"""

from __future__ import annotations

from stateproc import types
from stateproc.errors import InvalidOption, Where
from stateproc.keygroups.operator_ids import operator_id
from stateproc.keygroups.sql_hash_codes import has_sql_hash_code
from stateproc.query_plans.aggregate_views import renumbered, seen_view
from stateproc.query_plans.split_conversion import ACCUMULATORS, SplitChange, final_numbers, seen_bits, split_conversion
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers.table.logical_types import LogicalType
from stateproc.serializers.table.serializers import External, RowData
from stateproc.writers.rewrite.existing_operator import ExistingOperator
from stateproc.writers.rewrite.key_evolution import BucketKey
from stateproc.writers.rewrite.raw_copy import carried_splits
from stateproc.writers.rewrite.type_changes import TypeChange


def split_operator(one: ExistingOperator, change: SplitChange) -> ExistingOperator | None:
    """Make the operator of an aggregate that of the final one, and return that of the partial one.

    Args:
        one: The operator, which gets edits.
        change: What becomes of it.

    Returns:
        The operator of the partial aggregate; None if no row has come yet.

    Raises:
        InvalidOption: The state is not that of the old plan, or the hash code of values is not known.
    """
    key, names, split = one.header.key, one.header.names, change.split
    if ACCUMULATORS not in names or not isinstance(key, RowData):
        return None
    views, partial = {name for name in names if seen_view(name) is not None}, ExistingOperator(one.operator)
    partial.operator_id, partial.uid = operator_id(change.partial), change.partial
    columns = [split.kept.index(at) if at in split.kept else None for at in range(split.width)]
    columns_of_key = [_BUCKET if at is None else key.types[at] for at in columns]
    new = types.RowData([(f"f{at}", type_) for at, type_ in enumerate(columns_of_key)])
    assert isinstance(new, RowData)
    partial.edits.set_key(BucketKey(new, tuple(columns), _buckets(one, change)))
    partial.edits.dropped |= set(names) - views - ({ACCUMULATORS} if split.has_partial_results else set())
    if split.has_partial_results:
        _convert(partial, change, partial=True)
    one.edits.dropped |= views
    _convert(one, change)
    _convert_seen(partial, change)
    one.edits.renamed |= renumbered(names, dict(enumerate(final_numbers(change.one))))
    return partial


def unsplit_operator(final: ExistingOperator, partial: ExistingOperator | None, change: SplitChange) -> None:
    """Make the operator of a final aggregate that of one which is not split; ``partial``: that of the partial one.

    Raises:
        InvalidOption: The state is not that of the old plan, or that of the partial aggregate is missing.
    """
    key = final.header.key
    if ACCUMULATORS not in final.header.names or not isinstance(key, RowData):
        return  # No row has come yet.
    _convert(final, change)
    seen = {} if partial is None else {name: seen_view(name) for name in partial.header.names}
    views = {f"distinctAcc_{view}": view for view in range(len(change.split.buckets))}
    if partial is not None and views.keys() <= seen.keys() and {None, *views.values()} >= set(seen.values()):
        partial.edits.set_key(BucketKey(key, change.split.kept, {}))
        partial.edits.dropped |= {name for name, view in seen.items() if view is None}
        _convert_seen(partial, change)
        final.adopted = partial
        numbers = {to: number for number, to in enumerate(final_numbers(change.one))}
        final.edits.renamed |= renumbered(final.header.names, numbers)
    elif any(len(batch) for split in carried_splits(final.operator, ACCUMULATORS, 0) for batch in split.read()):
        raise InvalidOption(
            f"what DISTINCT has seen is kept by {change.partial}, which the snapshot does not have with its states, "
            "so that rows which come again would be counted twice",
            where=Where(operator=final.operator.display),
            advice="give the plan that the job ran, or let the aggregate begin without state: --empty",
        )


_BUCKET = LogicalType("INTEGER")


def _convert_seen(partial: ExistingOperator, change: SplitChange) -> None:
    """Give values that DISTINCT has seen the bits of the new calls."""
    for name in partial.header.names:
        view = seen_view(name)
        bits = seen_bits(change, view) if view is not None and view < len(change.split.buckets) else None
        if bits is not None:
            state = partial.header.keyed(name)
            column = "map_value" if state.kind is StateKind.MAP else "value"
            made = TypeChange(state.value, {}, (f"{column} = {bits.format(column)}",))
            partial.edits.set_type(name, made, of_elements=False)


def _buckets(one: ExistingOperator, change: SplitChange) -> dict[str, tuple[int, int]]:
    """Return the buckets of each state with what DISTINCT has seen. Raises InvalidOption."""
    found: dict[str, tuple[int, int]] = {}
    for view, bucket in enumerate(change.split.buckets):
        name = f"distinctAcc_{view}"
        if name not in one.header.names:
            continue
        state = one.header.keyed(name)
        type_ = state.user_key.type if isinstance(state.user_key, External) else None
        if state.kind is not StateKind.MAP or type_ is None or not has_sql_hash_code(type_):
            raise InvalidOption(
                f"DISTINCT is split by hash codes of values whose type is {'' if type_ is None else type_.sql}, which "
                "are not known",
                where=Where(operator=one.operator.display, state=name),
                advice="keep the setting table.optimizer.distinct-agg.split.enabled, or let it begin without state: "
                "--empty",
            )
        found[name] = bucket
    return found


def _convert(operator: ExistingOperator, change: SplitChange, *, partial: bool = False) -> None:
    """Give accumulators the types of the new plan. Raises InvalidOption."""
    state, names = operator.header.keyed(ACCUMULATORS), operator.operator.context.row_names
    old = (state if names is None else names.applied(state)).value
    if not isinstance(old, RowData):
        raise InvalidOption(f"{change.one.label} has accumulators that are no rows", advice="give the job's plan")
    made = split_conversion(change, old, partial=partial)
    if made.changes(old):
        to = TypeChange(made.value, made.renames, made.assignments)
        operator.edits.set_type(ACCUMULATORS, to, of_elements=False)
