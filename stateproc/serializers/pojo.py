"""POJOs: org.apache.flink.api.java.typeutils.runtime.PojoSerializer.

A value: u8 flags 1 null | 2 this class | 4 a subclass by name | 8 a registered subclass by tag, then for 2 each
field in the snapshot's order as null mark and value, else the subclass serializer's whole output.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder, Label
from stateproc.codec.encoding.sized_writers import Measured, same
from stateproc.codec.layouts import Layout, Marked
from stateproc.codec.layouts.base import nothing_of
from stateproc.codec.layouts.merging import Merged, Shape
from stateproc.codec.layouts.strings import blob_array, blob_columns
from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.serializers.base import LayoutContext, Serializer, Undecodable, simple_name
from stateproc.serializers.opaque import Opaque
from stateproc.serializers.optional_maps import OptionalEntry, read_optional_map, write_optional_map
from stateproc.serializers.registry import UnknownSnapshotClass, expect_version, read_versioned, snapshot, write_head
from stateproc.wire import Cursor, Output

_SNAPSHOT = "org.apache.flink.api.java.typeutils.runtime.PojoSerializerSnapshot"
_NULL, _EXACT, _BY_NAME, _BY_TAG = 1, 2, 4, 8
CLASS_FIELD = "class"


@dataclass(frozen=True)
class Subclass:
    """A subclass the snapshot lists: registered ones have a tag in the data, others are named there.

    ``missing``: whether Flink had no such class any more when it wrote the snapshot.
    """

    class_name: str
    serializer: Serializer
    tag: int | None
    missing: bool = field(default=False, compare=False)


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
        described = self._described(ctx)
        known = self.subclasses + described
        shapes = [Shape(self.class_name, self._steps(ctx.inner), bytes([_EXACT]))]
        own = dict(told_fields(self, ctx.inner))
        taken: _Taken = {name: (own[name], layout) for name, layout in shapes[0].steps}
        for subclass in self.subclasses:
            shapes.append(_subclass_shape(subclass, ctx.inner, taken))
        for subclass in described:
            inside = replace(ctx.inner, within=(*ctx.within, subclass.class_name))
            shapes.append(_subclass_shape(subclass, inside, taken))
        choose = partial(_choose, class_name=self.class_name, subclasses=known, within=ctx.within)
        return Merged(tuple(shapes), choose, CLASS_FIELD if known else None, null=bytes([_NULL]))

    def _steps(self, ctx: LayoutContext) -> tuple[tuple[str, Layout], ...]:
        return tuple(
            (name, Marked(field_layout(field, ctx, self.class_name, name))) for name, field in told_fields(self, ctx)
        )

    def _described(self, ctx: LayoutContext) -> tuple[Subclass, ...]:
        """Classes the user has described that can be subclasses: they have all fields of this one."""
        if not ctx.classes:
            return ()
        from stateproc.serializers.classes import described_pojo, parse_classes

        listed = {self.class_name, *ctx.within} | {subclass.class_name for subclass in self.subclasses}
        own = {name for name, _ in self.fields}
        found = []
        classes = parse_classes(ctx.classes)
        for name, described in classes.items():
            if name in listed or not own < {field for field, _ in described.fields}:
                continue
            pojo = described_pojo(name, classes, (self.class_name,))
            if pojo is not None:
                same = dict(self.fields)
                fields = tuple((field, same.get(field, serializer)) for field, serializer in pojo.fields)
                found.append(Subclass(name, Pojo(name, fields), None))
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


def told_fields(pojo: Pojo, ctx: LayoutContext) -> tuple[tuple[str, Serializer], ...]:
    """The fields; where the user describes the class, those left to Kryo know their type arguments from there."""
    if not ctx.classes:
        return pojo.fields
    from stateproc.serializers.classes import with_declared_types

    return with_declared_types(pojo.class_name, pojo.fields, ctx.classes)


_Taken = dict[str, tuple[Serializer | None, Layout]]
"""What the shapes so far have under a name: the field's serializer (None: no field of a POJO) and its layout."""


def _subclass_shape(subclass: Subclass, ctx: LayoutContext, taken: _Taken) -> Shape:
    """A subclass's shape; a field that another shape has otherwise gets the class's name before its own."""
    serializer = subclass.serializer
    if not isinstance(serializer, Pojo):
        step = _shared_step(subclass, simple_name(subclass.class_name), None, serializer.layout(ctx), taken)
        return Shape(subclass.class_name, (step,), _lead_of(subclass))
    steps: list[tuple[str, Layout]] = [("", Exact())]
    for name, own in told_fields(serializer, ctx):
        layout = Marked(field_layout(own, ctx, serializer.class_name, name))
        steps.append(_shared_step(subclass, name, own, layout, taken))
    return Shape(subclass.class_name, tuple(steps), _lead_of(subclass))


def _shared_step(
    subclass: Subclass, name: str, serializer: Serializer | None, layout: Layout, taken: _Taken
) -> tuple[str, Layout]:
    """The field as it is called in the struct, and the layout that all shapes with it share."""
    for prefix in ("", f"{simple_name(subclass.class_name)}_", f"{subclass.class_name}_"):
        known = taken.setdefault(prefix + name, (serializer, layout))
        # Layouts made twice of one serializer may hold functions, which are equal only to themselves.
        if known[1] == layout or (serializer is not None and known[0] == serializer):
            return prefix + name, known[1]
    raise Undecodable(f"fields of {subclass.class_name} share the name '{name}', each with another type")


def _lead_of(subclass: Subclass) -> bytes:
    """What stands before a subclass's own output."""
    if subclass.tag is not None:
        return bytes([_BY_TAG, subclass.tag])
    out = Output()
    out.u8(_BY_NAME)
    out.utf(subclass.class_name)
    return bytes(out)


def field_layout(serializer: Serializer, ctx: LayoutContext, class_name: str, name: str) -> Layout:
    """The layout of a field; one whose values cannot be decoded may still be null everywhere."""
    try:
        return serializer.layout(ctx)
    except Undecodable as reason:
        return Refused(f"field '{name}' of class {class_name!r}: {reason.message}", reason.advice)


@dataclass(frozen=True)
class Refused(Layout):
    """A value that nothing can decode: the column is null, and a row that is not null is an error."""

    message: str
    advice: str | None

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.binary()

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        lengths, data = blob_columns(b)
        b.refuse(partial(_refuse, message=self.message, advice=self.advice))
        return lambda taken: blob_array(taken, lengths, data, pa.binary())

    def measure(self, array: pa.Array) -> Measured:
        return nothing_of(array, self.message)


def _refuse(cursor: Cursor, *, message: str, advice: str | None) -> None:
    raise Undecodable(message, where=cursor.where(), advice=advice)


@dataclass(frozen=True)
class Exact(Layout):
    """The flags byte of a value that is exactly of its class."""

    @property
    def arrow_type(self) -> pa.DataType:
        return pa.bool_()

    @property
    def min_size(self) -> int:
        return 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.EXPECT, _EXACT)
        return lambda taken: None

    def measure(self, array: pa.Array) -> Measured:
        return same(bytes([_EXACT]))


def _choose(
    b: Builder,
    ways: list[Label],
    null_way: Label,
    *,
    class_name: str,
    subclasses: tuple[Subclass, ...],
    within: tuple[str, ...],
) -> None:
    by_name, by_tag, unknown = b.label(), b.label(), b.label()
    # The commonest first: the tags are tried in this order.
    b.op(ops.SWITCH, 1, 4, -1, _EXACT, ways[0], _NULL, null_way, _BY_NAME, by_name, _BY_TAG, by_tag)
    listed = list(zip(subclasses, ways[1:], strict=True))
    b.place(by_name)
    names: list[Any] = []
    for subclass, way in listed:
        if subclass.tag is None:
            names += (b.name(subclass.class_name.encode()), way)
    b.op(ops.SWITCH_NAME, len(names) // 2, unknown, *names)
    b.place(by_tag)
    tags: list[Any] = []
    for subclass, way in listed:
        if subclass.tag is not None:
            tags += (subclass.tag, way)
    b.op(ops.SWITCH, 1, len(tags) // 2, -1, *tags)
    b.place(unknown)
    b.refuse(partial(_refuse_subclass, class_name=class_name, within=within))


def _refuse_subclass(cursor: Cursor, *, class_name: str, within: tuple[str, ...]) -> None:
    at = cursor.pos
    name = cursor.utf()
    if name in within:
        raise UnsupportedSnapshot(
            f"an object of class {name!r} is inside of another one: such objects can be nested without end, columns "
            "cannot",
            where=cursor.where(at),
            advice="a canonical savepoint hides none of the other states behind such a value",
        )
    raise UnsupportedSnapshot(
        f"a value is of class {name!r}, a subclass of {class_name!r} that the snapshot does not list "
        "(heap snapshots list none), so its fields are unknown",
        where=cursor.where(at),
        advice=f"describe it: classes={{{name!r}: {{'field': 'type', …}}}} with all its fields, inherited ones too",
    )


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
