"""Rules of PojoSerializer: its schema evolves by fields (PojoSerializerSnapshot, PojoSerializerSnapshotData)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from stateproc.codec.kryo.types import FieldType
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.core.compatibility import (
    AS_IS,
    Answer,
    Comparison,
    Compatibility,
    Effect,
    Note,
    Undeclared,
    answer_of,
    can_restore,
    declared,
    incompatible,
    parts,
    readability,
    rule,
    same_job,
    with_parts,
)
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import NullableOf
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.collection_conversion import ConvertedCollection
from stateproc.serializers.pojo.serializer import Pojo, described_pojo, pojo_field_serializer
from stateproc.serializers.pojo.type_extraction import COLLECTIONS, ReleaseDependent

Fields = dict[tuple[str, str], Serializer]
"""Fields by the class that declares them and their name, which distinguish them in Java."""


@rule(Pojo)
def _resolve_pojo(old: Pojo, new: Pojo, comparison: Comparison) -> Compatibility:
    """Fields may be added and removed; a field that stays has to keep its type."""
    if old.class_name != new.class_name:
        return incompatible(f"{old.class_name} → {new.class_name}")
    before, after = _fields(old), _fields(new)
    found = AS_IS
    last = next(reversed(before), None)
    for key, serializer in before.items():
        at = comparison if key == last else comparison.inner
        if key in after:
            found &= _of_field(serializer, after[key], at).below(key[1])
        else:
            found &= _removed(key, serializer, before, after, at)
    for owner, name in after.keys() - before.keys():
        text = "is new: null, or 0 of a primitive type" + _moved((owner, name), before)
        found &= Compatibility(Answer.AFTER_MIGRATION, (Note(Effect.CHANGE, text, name),))
    return found & _of_subclasses(old, new)


def _fields(pojo: Pojo) -> Fields:
    """The fields that the class has; one without a declaring class is not there any more."""
    owners = pojo.declared_in or (pojo.class_name,) * len(pojo.fields)
    return {(owner or "", name): serializer for (name, serializer), owner in zip(pojo.fields, owners, strict=True)}


def _of_field(old: Serializer, new: Serializer, comparison: Comparison) -> Compatibility:
    if isinstance(new, ReleaseDependent):
        new = new.of(LayoutContext(kryo=comparison.release.kryo))
    return _framed(answer_of(old, new, comparison))


def _framed(found: Compatibility) -> Compatibility:
    """A field's snapshot has a frame, so that one that cannot be read is missed only when the serializer is made."""
    if found.answer is not Answer.UNREADABLE:
        return found
    exception = "java.lang.IllegalStateException: field serializer snapshots should be present."
    return Compatibility(Answer.UNRESTORABLE, tuple(replace(note, exception=exception) for note in found.notes))


def _removed(
    key: tuple[str, str], serializer: Serializer, before: Fields, after: Fields, comparison: Comparison
) -> Compatibility:
    """A removed field is still read, and has to be read to its end if others follow."""
    name = key[1]
    moved = [other for other, field in after if field == name and (other, field) not in before]
    text = f"is dropped: the job's field of that name is declared by {moved[0]}" if moved else "is dropped"
    if not moved:
        same = [field for other, field in after.keys() - before.keys() if after[other, field] == serializer]
        text += f"; if {same[0]} is its new name, its values are lost" if len(same) == 1 else ""
    notes = [Note(Effect.LOSS, text, name)]
    read = answer_of(serializer, serializer, comparison).below(name)
    for note in read.notes:
        if note.effect is Effect.UNDECIDED or (
            note.effect is Effect.MISREAD and (note.exception or not comparison.tail)
        ):
            notes.append(replace(note, text=f"{note.text}, although the field is dropped"))
    return Compatibility(Answer.AFTER_MIGRATION, tuple(notes))


def _moved(key: tuple[str, str], before: Fields) -> str:
    owners = [owner for owner, name in before if name == key[1]]
    return f"; {owners[0]} declared it before" if owners else ""


def _of_subclasses(old: Pojo, new: Pojo) -> Compatibility:
    """Subclasses that a job has met are in its snapshot; one that has not met them takes them over."""
    if any(subclass.missing for subclass in old.subclasses):
        return incompatible("a subclass of its values is not on the class path any more")
    listed = {subclass.class_name: subclass.tag for subclass in new.subclasses}
    if all(listed.get(subclass.class_name, -1) == subclass.tag for subclass in old.subclasses):
        return AS_IS
    return Compatibility(
        Answer.RECONFIGURED, (Note(Effect.CHANGE, "the snapshot lists subclasses that the job has not met"),)
    )


@readability(Pojo)
def _read_pojo(old: Pojo, comparison: Comparison) -> Compatibility | None:
    for name, serializer in old.fields:
        found = can_restore(serializer, comparison)
        if found is not None:
            return _framed(found).below(name)
    for subclass in old.subclasses:
        found = can_restore(subclass.serializer, comparison)
        if found is not None:
            return _framed(found).below(f"({subclass.class_name})")
    return None


@declared(Pojo)
def _same_pojo(old: Pojo, comparison: Comparison) -> Serializer:
    """Fields of List, Map, Set … have serializers of Flink's own since 2.0, if their arguments are plain classes.

    Only a description says which arguments they have; without one it is `Undeclared`.
    """
    extracted = _extracted(old, comparison)
    fields = tuple((name, _same_field(serializer, extracted.get(name), comparison)) for name, serializer in old.fields)
    changed = tuple(replace(one, serializer=same_job(one.serializer, comparison)) for one in old.subclasses)
    return replace(old, fields=fields, subclasses=changed)


Taken = Mapping[tuple[str, str], FieldType]
"""Class and field of a POJO → the type that is taken for the field, where no description gives it."""


def convertible(old: Serializer, comparison: Comparison, taken: Taken | None = None) -> Serializer:
    """Return a serializer whose fields of List, Map, Set … of POJOs are written as a job of Flink 2 writes them.

    Those of which nothing gives the arguments stay as they are, see `undeclared_collections`.
    """
    if not isinstance(old, Pojo):
        return with_parts(old, lambda part: convertible(part, comparison, taken))
    extracted = _extracted(old, comparison, taken)

    def collection(serializer: Kryo, known: Serializer | None) -> Serializer:
        if not isinstance(known, ReleaseDependent) or not isinstance(known.one, Kryo):
            return serializer
        declared = known.one.declared
        if declared is not None and declared.name == "java.lang.Iterable":  # Of which columns know no elements.
            declared = replace(declared, name="java.util.Collection")
        return ConvertedCollection(replace(serializer, declared=declared), known.two)

    def rest(serializer: Serializer) -> Serializer:
        return convertible(serializer, comparison, taken)

    fields = tuple(
        (name, _with_collections(serializer, extracted.get(name), collection, rest)) for name, serializer in old.fields
    )
    changed = tuple(replace(one, serializer=convertible(one.serializer, comparison, taken)) for one in old.subclasses)
    return replace(old, fields=fields, subclasses=changed)


def _with_collections(
    old: Serializer,
    extracted: Serializer | None,
    change: Callable[[Kryo, Serializer | None], Serializer],
    rest: Callable[[Serializer], Serializer],
) -> Serializer:
    """Return a field's serializer with changed collections of Kryo, also those in tuples and arrays.

    Args:
        extracted: What the description gives the field; None where there is none.
        change: Returns another serializer for a collection, of it and of what the description gives in its place.
        rest: Returns another serializer for what has no collection of the field, such as other POJOs.
    """
    if isinstance(old, Kryo) and old.class_name in COLLECTIONS:
        return change(old, extracted)
    if not has_collection(old):
        return rest(old)
    own = [part for _, part in parts(old)]
    known = [] if extracted is None or type(extracted) is not type(old) else [part for _, part in parts(extracted)]
    beside = iter(known if len(known) == len(own) else [None] * len(own))
    return with_parts(old, lambda part: _with_collections(part, next(beside), change, rest))


def has_collection(serializer: Serializer) -> bool:
    """Whether Kryo writes a List, Map, Set …, as the whole or a part that is no field of a POJO."""
    if isinstance(serializer, Kryo):
        return serializer.class_name in COLLECTIONS
    return not isinstance(serializer, Pojo) and any(has_collection(part) for _, part in parts(serializer))


def with_fields(old: Serializer, change: Callable[[str, str, Serializer], Serializer | None]) -> Serializer:
    """Return a serializer with other serializers of POJOs' fields: what ``change`` returns of class, field and that."""
    if not isinstance(old, Pojo):
        return with_parts(old, lambda part: with_fields(part, change))
    fields = tuple(
        (name, change(old.class_name, name, serializer) or with_fields(serializer, change))
        for name, serializer in old.fields
    )
    changed = tuple(replace(one, serializer=with_fields(one.serializer, change)) for one in old.subclasses)
    return replace(old, fields=fields, subclasses=changed)


def undeclared_collections(
    old: Serializer, comparison: Comparison, taken: Taken | None = None
) -> Iterator[tuple[Pojo, str]]:
    """Yield the POJOs with fields of List, Map, Set … whose arguments nothing gives, and these fields."""
    if isinstance(old, Pojo):
        extracted = _extracted(old, comparison, taken)
        for name, serializer in old.fields:
            if name not in extracted and has_collection(serializer):
                yield old, name
            yield from undeclared_collections(serializer, comparison, taken)
        for subclass in old.subclasses:
            yield from undeclared_collections(subclass.serializer, comparison, taken)
    else:
        for _, part in parts(old):
            yield from undeclared_collections(part, comparison, taken)


def _extracted(old: Pojo, comparison: Comparison, taken: Taken | None = None) -> dict[str, Serializer]:
    """The serializers of the fields by the class's description; without one those of types that are taken for them."""
    classes = parse_classes(comparison.classes)
    if not comparison.changes_kryo:
        return {}
    if old.class_name not in classes:
        own = {name: type_ for (owner, name), type_ in (taken or {}).items() if owner == old.class_name}
        return {name: pojo_field_serializer(type_, classes) for name, type_ in own.items()}
    pojo = described_pojo(old.class_name, comparison.classes)
    return dict(pojo.fields) if isinstance(pojo, Pojo) else {}


def _same_field(old: Serializer, extracted: Serializer | None, comparison: Comparison) -> Serializer:
    if not comparison.changes_kryo:
        return old
    if comparison.release.kryo < 5:
        collection = old.inner if isinstance(old, NullableOf) else None
        name = _ONE_OF.get(collection.kind) if isinstance(collection, ListOf | MapOf) else None
        return old if name is None else Kryo(name, (name,))
    return _with_collections(old, extracted, _collection_of_job, lambda part: same_job(part, comparison))


def _collection_of_job(old: Kryo, extracted: Serializer | None) -> Serializer:
    if isinstance(extracted, ReleaseDependent):
        return extracted.two
    return old if extracted is not None else Undeclared(_COLLECTION_OF_FLINK_2.format(old.class_name))


_COLLECTION_OF_FLINK_2 = (
    "Flink 2 has a serializer of its own for a field of type {0}, unless its type arguments have arguments themselves "
    "or are none: then Kryo 5 misreads it"
)
_ONE_OF = {"List": "java.util.List", "Set": "java.util.Set", "Map": "java.util.Map"}
