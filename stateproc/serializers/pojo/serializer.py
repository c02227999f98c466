"""Read and write POJOs: org.apache.flink.api.java.typeutils.runtime.PojoSerializer.

A value: u8 flags 1 null | 2 this class | 4 a subclass by name | 8 a registered subclass by tag, then for 2 each
field in the snapshot's order as null mark and value, else the subclass serializer's whole output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from stateproc.codec.kryo.types import FieldType, UserClass
from stateproc.codec.layouts import Layout, Marked
from stateproc.codec.layouts.variants import StructVariant, VariantStruct
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import LayoutContext, Serializer, simple_name
from stateproc.serializers.core.opaque import Opaque
from stateproc.serializers.core.optional_maps import OptionalEntry, read_optional_map, write_optional_map
from stateproc.serializers.core.registry import (
    UnknownSnapshotClass,
    expect_version,
    read_versioned,
    snapshot,
    write_head,
)
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.layouts import (
    IS_EXACT_CLASS,
    IS_NAMED_SUBCLASS,
    IS_NULL,
    IS_TAGGED_SUBCLASS,
    ExactClassMark,
    FieldsByName,
    Subclass,
    choose_shape,
    field_layout,
    shared_step,
)
from stateproc.serializers.pojo.type_extraction import ReleaseDependent, TypeExtractor, java_class, with_declared_types
from stateproc.wire import Cursor, Output

_SNAPSHOT = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
CLASS_FIELD = "class"


@dataclass(frozen=True)
class Pojo(Serializer):
    """PojoSerializer: fields in the order of the snapshot, subclasses as far as it lists them.

    ``declared_in``: per field the class that declares it (None: the class has that field no more); empty: all are
    the class's own.
    """

    class_name: str
    fields: tuple[tuple[str, Serializer], ...]
    subclasses: tuple[Subclass, ...] = ()
    declared_in: tuple[str | None, ...] = field(default=(), compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        described = self.described_subclasses(ctx)
        known = self.subclasses + described
        shapes = [StructVariant(self.class_name, self._steps(ctx.inner), bytes([IS_EXACT_CLASS]))]
        own = dict(fields_with_declared_types(self, ctx.inner))
        taken: FieldsByName = {name: (own[name], layout) for name, layout in shapes[0].steps}
        for subclass in self.subclasses:
            shapes.append(_subclass_shape(subclass, ctx.inner, taken))
        for subclass in described:
            inside = replace(ctx.inner, within=(*ctx.within, subclass.class_name))
            shapes.append(_subclass_shape(subclass, inside, taken))
        choose = partial(choose_shape, class_name=self.class_name, subclasses=known, within=ctx.within)
        return VariantStruct(tuple(shapes), choose, CLASS_FIELD if known else None, null=bytes([IS_NULL]))

    def _steps(self, ctx: LayoutContext) -> tuple[tuple[str, Layout], ...]:
        return tuple(
            (name, Marked(field_layout(field, ctx, self.class_name, name)))
            for name, field in fields_with_declared_types(self, ctx)
        )

    def described_subclasses(self, ctx: LayoutContext) -> tuple[Subclass, ...]:
        """Return the described classes that can be subclasses: those that have all fields of this one and others.

        A class without others has to be described as one that extends this one.
        """
        if not ctx.classes:
            return ()
        listed = {self.class_name, *ctx.within} | {subclass.class_name for subclass in self.subclasses}
        own = {name for name, _ in self.fields}
        found: list[Subclass] = []
        classes = parse_classes(ctx.classes)
        if self.class_name in classes and classes[self.class_name].final:
            return ()
        for name, described in classes.items():
            fields_of = {field for field, _ in described.fields}
            if name in listed or not (own < fields_of or (own == fields_of and described.parent == self.class_name)):
                continue
            pojo = described_pojo(name, classes, (self.class_name,))
            if isinstance(pojo, Pojo):
                inherited = dict(self.fields)
                fields = tuple((field, _inherited(inherited.get(field), new, ctx)) for field, new in pojo.fields)
                found.append(Subclass(name, Pojo(name, fields), None))
            elif pojo is not None:
                found.append(Subclass(name, pojo, None))
        return tuple(found)

    @property
    def type_name(self) -> str:
        return f"Pojo {simple_name(self.class_name)}"

    @property
    def nested(self) -> tuple[Serializer, ...]:
        return tuple(serializer for _, serializer in self.fields)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, _SNAPSHOT, 2, release)
        out.utf(self.class_name)
        owners = self.declared_in or (self.class_name,) * len(self.fields)
        write_optional_map(
            out,
            [
                (name, None if owner is None else _field_key(owner, name), _framed(serializer, release))
                for (name, serializer), owner in zip(self.fields, owners, strict=True)
            ],
        )
        for registered in (True, False):
            write_optional_map(
                out,
                [
                    (one.class_name, None if one.missing else b"", _framed(one.serializer, release))
                    for one in self.subclasses
                    if (one.tag is not None) == registered
                ],
            )


def _field_key(owner: str, name: str) -> bytes:
    """PojoFieldUtils.writeField: the declaring class, the field's name."""
    out = Output()
    out.utf(owner)
    out.utf(name)
    return bytes(out)


def _framed(serializer: Serializer, release: Release) -> bytes | None:
    if isinstance(serializer, Opaque) and not serializer.snapshot:
        return None
    out = Output()
    serializer.write_snapshot(out, release)
    return bytes(out)


def fields_with_declared_types(pojo: Pojo, ctx: LayoutContext) -> tuple[tuple[str, Serializer], ...]:
    """The fields; where the user describes the class, those left to Kryo know their type arguments from there."""
    if not ctx.classes:
        return pojo.fields
    return with_declared_types(pojo.class_name, pojo.fields, ctx.classes)


def _inherited(listed: Serializer | None, extracted: Serializer, ctx: LayoutContext) -> Serializer:
    """Choose the serializer of a described subclass's field: the superclass's, which the snapshot lists in detail.

    Flink extracts the subclass by itself. So where the job gave the superclass's field another type than extraction
    does, such as Types.LIST of a List in Flink 1, the subclass has the extracted one.
    """
    if listed is None:
        return extracted
    if isinstance(extracted, ReleaseDependent):
        extracted = extracted.of(ctx)
    undescribed = isinstance(extracted, Kryo) and not extracted.class_name.startswith("java.")
    return listed if undescribed or type(extracted) is type(listed) else extracted


def described_pojo(name: str, classes: Mapping[str, Any], above: tuple[str, ...] = ()) -> Serializer | None:
    """Create the serializer of a class that is described by its fields as Flink's type extraction does.

    Args:
        classes: descriptions as `parse_classes` takes them.
        above: superclasses that no description declares; Flink leaves fields of these types to Kryo.

    Returns:
        The serializer: a Pojo, or for a class that is none Kryo; None for an enum or a class without description.

    Raises:
        InvalidOption: the descriptions are invalid, or put too many objects into one value.
    """
    descriptions = parse_classes(classes)
    described = descriptions.get(name)
    if described is None or described.is_enum or described.like is not None or described.alternatives:
        return None
    if described.generic:
        return Kryo(name, (name,))
    return _extractor(descriptions).pojo(described, (name, *above))


def pojo_field_serializer(type_: FieldType, classes: Mapping[str, UserClass]) -> Serializer:
    """Find the serializer that Flink's type extraction gives a POJO's field of this type."""
    return _extractor(classes).field(type_, (java_class(type_),))


def _extractor(classes: Mapping[str, UserClass]) -> TypeExtractor[Pojo]:
    return TypeExtractor(classes, lambda name, fields, owners: Pojo(name, fields, (), owners))


def _subclass_shape(subclass: Subclass, ctx: LayoutContext, taken: FieldsByName) -> StructVariant:
    """A subclass's shape; a field that another shape has otherwise gets the class's name before its own."""
    serializer = subclass.serializer
    if not isinstance(serializer, Pojo):
        step = shared_step(subclass.class_name, simple_name(subclass.class_name), None, serializer.layout(ctx), taken)
        return StructVariant(subclass.class_name, (step,), _prefix_of(subclass))
    steps: list[tuple[str, Layout]] = [("", ExactClassMark())]
    for name, own in fields_with_declared_types(serializer, ctx):
        layout = Marked(field_layout(own, ctx, serializer.class_name, name))
        steps.append(shared_step(subclass.class_name, name, own, layout, taken))
    return StructVariant(subclass.class_name, tuple(steps), _prefix_of(subclass))


def _prefix_of(subclass: Subclass) -> bytes:
    """What stands before a subclass's own output."""
    if subclass.tag is not None:
        return bytes([IS_TAGGED_SUBCLASS, subclass.tag])
    out = Output()
    out.u8(IS_NAMED_SUBCLASS)
    out.utf(subclass.class_name)
    return bytes(out)


@snapshot(_SNAPSHOT)
def _read_pojo(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, "PojoSerializerSnapshot", version, 2)
    class_name = cursor.utf()
    entries = read_optional_map(cursor)
    fields = tuple((entry.name, _field_serializer(cursor, entry)) for entry in entries)
    owners = tuple(None if entry.key is None else entry.key.utf() for entry in entries)
    registered = tuple(
        Subclass(entry.name, _field_serializer(cursor, entry), tag, entry.key is None)
        for tag, entry in enumerate(read_optional_map(cursor))
    )
    others = tuple(
        Subclass(entry.name, _field_serializer(cursor, entry), None, entry.key is None)
        for entry in read_optional_map(cursor)
    )
    return Pojo(class_name, fields, registered + others, owners)


def _field_serializer(cursor: Cursor, entry: OptionalEntry) -> Serializer:
    """The framed serializer of an entry; one of an unknown class is skipped by its frame."""
    if entry.value is None:
        return Opaque(entry.name)
    entry.value.depth = cursor.depth
    raw = bytes(entry.value.data[entry.value.pos : entry.value.end])
    try:
        serializer = read_versioned(entry.value)
    except UnknownSnapshotClass as unknown:
        return Opaque(unknown.class_name, raw)
    entry.value.finish(f"the serializer of {entry.name!r}")
    return serializer
