"""Read and write the case classes, case objects and sealed traits (coproducts) of flink-scala-api.

Snapshots (org.apache.flinkx.api.serializer):
* ScalaCaseClassSerializerSnapshot: a composite of the fields; outer version 2: utf class; 3: utf class, boolean
  immutable.
* CoproductSerializer$CoproductSerializerSnapshot: version 1: i32 n, n utf classes, n nested snapshots without version;
  2: the same with versioned snapshots; 3: a composite, whose outer part is i32 n, n Flink strings.
* ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot, version 1: utf class.

Values: a case class begins with its number of fields (i32) from release 1.1.5 on, unless the job was run with
DISABLE_CASE_CLASS_ARITY_USAGE=true; before, it does not, under the same snapshot. With outer version 3 it always does,
and −2³¹ is a null. A coproduct is the class's index (a byte; −128 is null, from 2.x on) and the value. A case object
has no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.codec import ops
from stateproc.codec.builder import Builder, Label
from stateproc.codec.layouts import Layout
from stateproc.codec.layouts.variants import UNNAMED, StructVariant, VariantStruct
from stateproc.flink_versions import Release
from stateproc.serializers.core.base import VARIABLE, CaseClassArity, LayoutContext, Serializer, Undecodable, fixed_sum
from stateproc.serializers.core.registry import (
    CompositeSerializer,
    composite_with,
    expect_version,
    write_composite,
    write_head,
)
from stateproc.serializers.flinkx.layouts import (
    PACKAGE,
    UNVERSIONED,
    CountedFields,
    FieldCount,
    flinkx_snapshot,
    read_part,
    write_part,
)
from stateproc.serializers.pojo.layouts import FieldsByName, shared_step
from stateproc.serializers.scala import CaseClass
from stateproc.wire import Cursor, Output

_CASE_CLASS = "ScalaCaseClassSerializerSnapshot"
_CASE_OBJECT = "ScalaCaseObjectSerializer$ScalaCaseObjectSerializerSnapshot"
_COPRODUCT = "CoproductSerializer$CoproductSerializerSnapshot"
_COMPOSITE = 3
_NULL_INDEX = 128  # the byte −128
_TYPE = "type"


@dataclass(frozen=True)
class FlinkxCaseClass(CaseClass):
    """A case class or tuple of flink-scala-api. ``immutable``: None for the snapshots of 1.x, which do not say."""

    immutable: bool | None = None

    def layout(self, ctx: LayoutContext) -> Layout:
        fields = super().layout(ctx)
        if self.immutable is not None:
            return CountedFields(fields, len(self.fields), max(self._fields_length, 0))
        return CountedFields(fields, len(self.fields)) if self.counts_fields(ctx) else fields

    def counts_fields(self, ctx: LayoutContext) -> bool:
        """Whether values begin with the number of fields. Raises Undecodable if the values do not show it."""
        if self.immutable is not None:
            return True
        if not self.fields:
            return False
        if ctx.case_class_arity is CaseClassArity.UNCLEAR:
            raise Undecodable(
                f"values of the case class {self.class_name!r} fit both layouts of flink-scala-api 1.x: with the "
                "number of fields in front and without",
                advice="say which it is: case_class_arity='present' for flink-scala-api 1.1.5 and later, 'absent' for "
                "earlier releases and jobs that ran with DISABLE_CASE_CLASS_ARITY_USAGE=true",
            )
        return ctx.case_class_arity is not CaseClassArity.ABSENT

    @property
    def _fields_length(self) -> int:
        # TupleSerializerBase.getLength takes a field without bytes, such as Unit, for one of any length.
        return VARIABLE if any(field.length == 0 for field in self.fields) else fixed_sum(self.fields)

    @property
    def length(self) -> int:
        # That of 1.x does not count the number of fields.
        own = self._fields_length
        return own if own == VARIABLE or self.immutable is None else own + 4

    def write_snapshot(self, out: Output, release: Release) -> None:
        immutable = self.immutable

        def write_outer(outer: Output) -> None:
            outer.utf(self.class_name)
            if immutable is not None:
                outer.boolean(immutable)

        write_composite(out, PACKAGE + _CASE_CLASS, 2 if immutable is None else 3, self.fields, release, write_outer)


@flinkx_snapshot(_CASE_CLASS)
def _read_case_class(cursor: Cursor, version: int) -> Serializer:
    def read_outer(outer: Cursor, outer_version: int) -> tuple[str, bool | None]:
        expect_version(outer, _CASE_CLASS, outer_version, 2, 3)
        return outer.utf(), outer.boolean() if outer_version > 2 else None

    (name, immutable), fields = composite_with(cursor, version, None, read_outer)
    return FlinkxCaseClass(name, fields, immutable=immutable)


@dataclass(frozen=True)
class CaseObject(Serializer):
    """A case object: no bytes. It is shown as a struct of its name, as in a coproduct."""

    class_name: str
    length = 0

    def layout(self, ctx: LayoutContext) -> Layout:
        shape = StructVariant(_simple(self.class_name), (), b"")
        return VariantStruct((shape,), _only_shape, _TYPE, least=0)

    @property
    def type_name(self) -> str:
        return _simple(self.class_name)

    def write_snapshot(self, out: Output, release: Release) -> None:
        write_head(out, PACKAGE + _CASE_OBJECT, 1, release)
        out.utf(self.class_name)


def _only_shape(b: Builder, labels: list[Label], null: Label) -> None:
    b.op(ops.JUMP, labels[0])


@flinkx_snapshot(_CASE_OBJECT)
def _read_case_object(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, _CASE_OBJECT, version, 1)
    return CaseObject(cursor.utf())


@dataclass(frozen=True)
class Coproduct(CompositeSerializer):
    """A sealed trait: one of its classes, as a struct of ``type`` (the class) and the fields of all classes.

    Fields of one name and type share a column; others have the class's name before theirs.
    """

    classes: tuple[str, ...]
    members: tuple[Serializer, ...]
    version: int = field(default=_COMPOSITE, compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        taken: FieldsByName = {}
        labels = self._labels
        shapes = tuple(
            _member_shape(index, labels[index], serializer, ctx.inner, taken)
            for index, serializer in enumerate(self.members)
        )
        null = bytes([_NULL_INDEX]) if self.version >= _COMPOSITE else None
        return VariantStruct(shapes, self._choose, _TYPE, least=1, null=null)

    def _choose(self, b: Builder, labels: list[Label], null: Label) -> None:
        pairs: list[int | Label] = []
        for index, label in enumerate(labels):
            pairs += (index, label)
        if self.version >= _COMPOSITE:
            pairs += (_NULL_INDEX, null)
        b.op(ops.SWITCH, 1, len(pairs) // 2, -1, *pairs)

    @property
    def _labels(self) -> tuple[str, ...]:
        simple = [_simple(name) for name in self.classes]
        return tuple(
            name if simple.count(short) > 1 else short for name, short in zip(self.classes, simple, strict=True)
        )

    @property
    def type_name(self) -> str:
        return " | ".join(self._labels)

    def write_snapshot(self, out: Output, release: Release) -> None:
        if self.version >= _COMPOSITE:

            def write_names(outer: Output) -> None:
                outer.i32(len(self.classes))
                for name in self.classes:
                    outer.fstr(name)

            write_composite(out, PACKAGE + _COPRODUCT, self.version, self.members, release, write_names)
            return
        write_head(out, PACKAGE + _COPRODUCT, self.version, release)
        out.i32(len(self.classes))
        for name in self.classes:
            out.utf(name)
        for serializer in self.members:
            write_part(serializer, out, release, versioned=self.version > UNVERSIONED)


def _member_shape(
    index: int, label: str, serializer: Serializer, ctx: LayoutContext, taken: FieldsByName
) -> StructVariant:
    """Return the shape of one class of a coproduct: its fields; a value of another type is one field."""
    lead = bytes([index])
    if isinstance(serializer, CaseObject):
        return StructVariant(label, (), lead)
    if not isinstance(serializer, FlinkxCaseClass):
        return StructVariant(label, (shared_step(label, label, serializer, serializer.layout(ctx), taken),), lead)
    steps: list[tuple[str, Layout]] = []
    if serializer.counts_fields(ctx):
        steps.append((UNNAMED, FieldCount(len(serializer.fields))))
    for name, own in zip(serializer.names(ctx), serializer.fields, strict=True):
        # A field called as the column of the class gets the class's name before its own.
        shown = f"{label}_{name}" if name == _TYPE else name
        steps.append(shared_step(label, shown, own, own.layout(ctx), taken))
    return StructVariant(label, tuple(steps), lead)


def _simple(class_name: str) -> str:
    """Return a class's name without package and enclosing classes; an object's without the $ at its end."""
    return class_name.rstrip("$").rsplit(".", 1)[-1].rsplit("$", 1)[-1]


@flinkx_snapshot(_COPRODUCT)
def _read_coproduct(cursor: Cursor, version: int) -> Serializer:
    expect_version(cursor, _COPRODUCT, version, 1, 2, 3)
    at = cursor.pos
    if version >= _COMPOSITE:

        def read_names(outer: Cursor, outer_version: int) -> list[str]:
            expect_version(outer, _COPRODUCT, outer_version, _COMPOSITE)
            return [outer.fstr() or "" for _ in range(outer.count("classes of a coproduct"))]

        names, members = composite_with(cursor, version, None, read_names)
    else:
        names = [cursor.utf() for _ in range(cursor.count("classes of a coproduct", 4))]
        members = tuple(read_part(cursor, versioned=version > UNVERSIONED) for _ in names)
    if len(members) != len(names) or not names or len(names) > _NULL_INDEX:
        cursor.corrupt(f"a coproduct of {len(names)} classes with {len(members)} serializers", at=at)
    return Coproduct(tuple(names), members, version)
