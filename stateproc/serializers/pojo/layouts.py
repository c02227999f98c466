"""Layouts of a POJO's flags byte, of its subclasses and of fields that cannot be decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from stateproc.codec import ops
from stateproc.codec.builder import Assembler, Builder, Label
from stateproc.codec.encoding.sized_writers import SizedWriter, constant_bytes
from stateproc.codec.layouts import Layout
from stateproc.errors import UnsupportedSnapshot
from stateproc.serializers.core.base import LayoutContext, Serializer, Undecodable, simple_name
from stateproc.serializers.core.opaque import UndecodableValue
from stateproc.wire import Cursor

IS_NULL, IS_EXACT_CLASS, IS_NAMED_SUBCLASS, IS_TAGGED_SUBCLASS = 1, 2, 4, 8


@dataclass(frozen=True)
class Subclass:
    """A subclass the snapshot lists: registered ones have a tag in the data, others are named there.

    ``missing``: whether Flink had no such class any more when it wrote the snapshot.
    """

    class_name: str
    serializer: Serializer
    tag: int | None
    missing: bool = field(default=False, compare=False)


def field_layout(serializer: Serializer, ctx: LayoutContext, class_name: str, name: str) -> Layout:
    """The layout of a field; one whose values cannot be decoded may still be null everywhere."""
    try:
        return serializer.layout(ctx)
    except Undecodable as reason:
        return UndecodableValue(f"field '{name}' of class {class_name!r}: {reason.message}", reason.advice)


FieldsByName = dict[str, tuple[Serializer | None, Layout]]
"""What the shapes so far have under a name: the field's serializer (None: no field of a POJO) and its layout."""


def shared_step(
    class_name: str, name: str, serializer: Serializer | None, layout: Layout, taken: FieldsByName
) -> tuple[str, Layout]:
    """The field as it is called in a struct of several classes, and the layout that all classes with it share."""
    for prefix in ("", f"{simple_name(class_name)}_", f"{class_name}_"):
        known = taken.setdefault(prefix + name, (serializer, layout))
        # Layouts made twice of one serializer may hold functions, which are equal only to themselves.
        if known[1] == layout or (serializer is not None and known[0] == serializer):
            return prefix + name, known[1]
    raise Undecodable(f"fields of {class_name} share the name '{name}', each with another type")


@dataclass(frozen=True)
class ExactClassMark(Layout):
    """The flags byte of a value that is exactly of its class."""

    arrow_type = pa.bool_()
    min_size = 1

    def emit(self, b: Builder, nullable: bool) -> Assembler:
        b.op(ops.EXPECT, IS_EXACT_CLASS)
        return lambda taken: None

    def measure(self, array: pa.Array) -> SizedWriter:
        return constant_bytes(bytes([IS_EXACT_CLASS]))


def choose_shape(
    b: Builder,
    labels: list[Label],
    null_label: Label,
    *,
    class_name: str,
    subclasses: tuple[Subclass, ...],
    within: tuple[str, ...],
) -> None:
    by_name, by_tag, unknown = b.label(), b.label(), b.label()
    # The commonest first: the tags are tried in this order.
    b.op(
        ops.SWITCH,
        1,
        4,
        -1,
        IS_EXACT_CLASS,
        labels[0],
        IS_NULL,
        null_label,
        IS_NAMED_SUBCLASS,
        by_name,
        IS_TAGGED_SUBCLASS,
        by_tag,
    )
    listed = list(zip(subclasses, labels[1:], strict=True))
    b.bind(by_name)
    names: list[Any] = []
    for subclass, label in listed:
        if subclass.tag is None:
            names += (b.name(subclass.class_name.encode()), label)
    b.op(ops.SWITCH_NAME, len(names) // 2, unknown, *names)
    b.bind(by_tag)
    tags: list[Any] = []
    for subclass, label in listed:
        if subclass.tag is not None:
            tags += (subclass.tag, label)
    b.op(ops.SWITCH, 1, len(tags) // 2, -1, *tags)
    b.bind(unknown)
    b.refuse(partial(_refuse_subclass, class_name=class_name, within=within))


def _refuse_subclass(cursor: Cursor, *, class_name: str, within: tuple[str, ...]) -> None:
    at = cursor.pos
    name = cursor.utf()
    if name in within:
        raise UnsupportedSnapshot(
            f"an object of class {name!r} is inside of another one: such objects can be nested without end, columns "
            "cannot",
            where=cursor.where(at),
            advice="in a canonical savepoint such a value does not make the other states unreadable",
        )
    raise UnsupportedSnapshot(
        f"a value is of class {name!r}, a subclass of {class_name!r} that the snapshot does not list "
        "(heap snapshots list none), so its fields are unknown",
        where=cursor.where(at),
        advice=f"describe it: classes={{{name!r}: {{'field': 'type', …}}}} with all its fields, inherited ones too; "
        f"if all are inherited, as {f'{name} extends {class_name}'!r}",
    )
