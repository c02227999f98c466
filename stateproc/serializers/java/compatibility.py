"""Rules of Flink's serializers of Java types: scalars, collections, tuples, rows, enums."""

from __future__ import annotations

from stateproc.flink_versions import Release
from stateproc.serializers.core.compatibility import (
    AS_IS,
    Answer,
    Comparison,
    Compatibility,
    Effect,
    Note,
    answer_of,
    composite_answer,
    incompatible,
    readability,
    rule,
    unreadable,
)
from stateproc.serializers.java.collections import ListOf
from stateproc.serializers.java.structs import EnumOf, RowOf, TupleOf

_SET_SINCE = Release(2, 0)
_SET_SNAPSHOT = "org.apache.flink.api.common.typeutils.base.SetSerializerSnapshot"


@rule(ListOf)
def _resolve_list(old: ListOf, new: ListOf, comparison: Comparison) -> Compatibility:
    """Lists, sets, arrays, Traversables are serializers of different classes; an array's class has to be the same.

    SetSerializer of Flink 2 extends ListSerializer, so that a list's snapshot takes it, which then reads a null mark
    before each element.
    """
    if (old.kind, new.kind) == ("List", "Set") and comparison.release >= _SET_SINCE:
        text = "List → Set, which reads the first byte of each element as a null mark"
        found = answer_of(old.element, new.element, comparison.inner).below("[]")
        return found & Compatibility(Answer.AS_IS, (Note(Effect.MISREAD, text),))
    if old.kind != new.kind or old.component != new.component:
        return incompatible(f"{old.type_name} → {new.type_name}")
    if old.kind == "List" and _snapshot_class(old) != _snapshot_class(new):
        return incompatible(f"{_snapshot_class(old)} → {_snapshot_class(new)}")
    return answer_of(old.element, new.element, comparison.inner).below("[]")


def _snapshot_class(serializer: ListOf) -> str:
    return serializer.snapshot_class.rpartition(".")[2] or "ListSerializerSnapshot"


@readability(ListOf)
def _read_set(old: ListOf, comparison: Comparison) -> Compatibility | None:
    if old.kind == "Set" and comparison.release < _SET_SINCE:
        return unreadable(
            f"Flink {comparison.release} has no serializer of sets, which are of {_SET_SINCE} and later",
            f"java.io.IOException: Could not find class '{_SET_SNAPSHOT}' in classpath.",
        )
    return None


@rule(TupleOf)
def _resolve_tuple(old: TupleOf, new: TupleOf, comparison: Comparison) -> Compatibility:
    if len(old.fields) != len(new.fields):
        return incompatible(f"a tuple of {len(old.fields)} fields → {len(new.fields)} fields")
    return composite_answer(TupleOf(old.class_name, old.fields), TupleOf(new.class_name, new.fields), comparison)


@rule(RowOf)
def _resolve_row(old: RowOf, new: RowOf, comparison: Comparison) -> Compatibility:
    """Rows are compared by the types of their fields in order; their names are not in the snapshot."""
    if len(old.fields) != len(new.fields):
        return incompatible(f"a row of {len(old.fields)} fields → {len(new.fields)} fields")
    found = AS_IS
    for index, (one, other) in enumerate(zip(old.fields, new.fields, strict=True)):
        at = comparison if index == len(old.fields) - 1 else comparison.inner
        found &= answer_of(one, other, at).below(f"f{index}")
    if old.has_kind != new.has_kind:
        found &= Compatibility(
            Answer.AFTER_MIGRATION, (Note(Effect.CHANGE, "rows of before Flink 1.11 have no RowKind"),)
        )
    return found


@rule(EnumOf)
def _resolve_enum(old: EnumOf, new: EnumOf, comparison: Comparison) -> Compatibility:
    """Constants may be added and moved; the serializer is reconfigured to the numbers of the snapshot."""
    if old.class_name != new.class_name or old.scala != new.scala:
        return incompatible(f"{old.type_name} → {new.type_name}")
    before, after = [name for _, name in old.constants], [name for _, name in new.constants]
    missing = [name for name in before if name not in after]
    if old.scala:
        return AS_IS if set(old.constants) <= set(new.constants) else incompatible("constants have other numbers")
    if missing:
        return unreadable(
            f"the constant {missing[0]} is removed or renamed",
            f"java.lang.IllegalStateException: Could not create a restore serializer for enum class {old.class_name}. "
            "Probably because an enum value was removed.",
        )
    if before == after[: len(before)] == after:
        return AS_IS
    return Compatibility(Answer.RECONFIGURED, (Note(Effect.CHANGE, "constants are added or moved"),))
