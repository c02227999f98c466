"""Define the Serializer interface: a TypeSerializer as its snapshot describes it, and the layout of its values."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from stateproc.codec.kryo.protobuf.descriptor_sets import DescriptorSet
from stateproc.codec.layouts import Layout
from stateproc.codec.temporal import Fidelity
from stateproc.errors import UnsupportedSnapshot
from stateproc.flink_versions import Release
from stateproc.wire import Output

VARIABLE = -1


class CaseClassArity(enum.Enum):
    """Whether case classes of flink-scala-api 1.x begin with their number of fields, which no snapshot says.

    FOUND: as the values show, PRESENT until they are looked at; UNCLEAR: the values fit both layouts.
    """

    FOUND = "found"
    PRESENT = "present"
    ABSENT = "absent"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class LayoutContext:
    """Settings of decoding and encoding that a serializer snapshot does not contain.

    kryo: 2 (Flink 1.x) or 5 (Flink 2.x); the snapshot does not say which wrote it.
    classes: descriptions of user classes, name → field → type (see serializers/java/class_descriptions.py).
    temporal: 'micros' (timestamps, Spark's precision), 'exact' (ISO-8601 strings with all nanoseconds) or 'lossless'
        (strings where values can have digits below a microsecond).
    strict: what a column cannot hold is an error, instead of left out: digits below a microsecond, RowKinds other than
        +I without ``row_kind``, half of a surrogate pair.
    row_kind: keep the RowKind of Row and RowData values as a field ``row_kind``.
    tail: the value extends to the end of its entry, so that even unknown bytes have a known length.
    opaque: with ``tail``, values of unknown types are their bytes; otherwise they are undecodable.
    within: described subclasses that enclose the value; they are not expanded again inside themselves.
    case_class_arity: whether case classes of flink-scala-api begin with their number of fields.
    proto: Protobuf messages whose fields are known.
    projected: for encoding: SQL rows are keys that generated projections make, see BinaryRow.reserve_nulls.
    convert_to: a version of Kryo: its values are converted and not decoded, so that a column has their bytes as this
        version writes them. 0: they are decoded.
    by_objects: with ``convert_to``: values are converted object by object, also those that columns represent exactly.
    """

    kryo: int = 2
    classes: Mapping[str, Any] = field(default_factory=dict)
    temporal: str = "micros"
    strict: bool = False
    row_kind: bool = False
    tail: bool = False
    opaque: bool = True
    within: tuple[str, ...] = ()
    case_class_arity: CaseClassArity = CaseClassArity.FOUND
    projected: bool = False
    proto: DescriptorSet | None = None
    convert_to: int = 0
    by_objects: bool = False

    @property
    def fidelity(self) -> Fidelity:
        """How exactly values become columns."""
        return Fidelity.of(self.temporal, self.strict)

    @property
    def has_bytes(self) -> bool:
        """Whether a value of an unknown type is its bytes."""
        return self.tail and self.opaque

    @property
    def inner(self) -> LayoutContext:
        """The context of a value that other values follow."""
        return replace(self, tail=False) if self.tail else self


class Serializer(ABC):
    """A TypeSerializer as its snapshot describes it. Implementations are frozen dataclasses."""

    @abstractmethod
    def layout(self, ctx: LayoutContext) -> Layout:
        """Return the layout of values in bytes. Raises Undecodable if the bytes alone do not determine it."""

    @property
    def length(self) -> int:
        """The size of every value in bytes, or VARIABLE (-1): TypeSerializer.getLength()."""
        return VARIABLE

    def write_snapshot(self, out: Output, release: Release) -> None:
        """Write this serializer's versioned snapshot (class name, version, payload) as ``release`` of Flink does.

        It is read back by the reader registered for the class. Raises UnsupportedSnapshot for read-only serializers.
        """
        raise UnsupportedSnapshot(
            f"no serializer snapshot can be written for the type {self.type_name}",
            advice="leave the state as it is (its bytes are copied), or give it another type",
        )

    @property
    @abstractmethod
    def type_name(self) -> str:
        """The type's name for users, e.g. ``Tuple2<String, Long>``."""

    @property
    def nested(self) -> tuple[Serializer, ...]:
        """The nested serializers."""
        return ()

    @property
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of decoded values, without descriptions of user classes."""
        return self.layout(LayoutContext(tail=True)).arrow_type

    def decode(self, data: bytes, **options: Any) -> Any:
        """Decode ``data`` to a Python value.

        Args:
            data: the bytes of exactly one value.
            **options: fields of `LayoutContext`; by default exact times, row kinds, and a value up to its entry's end.

        Raises:
            CorruptSnapshot: the bytes are no such value.
            Undecodable: the bytes alone do not determine the value.
        """
        # Lazy: start-up. The decoder imports numba, which reading snapshots and metadata does not need.
        from stateproc.serializers.core.value_decoding import decode_value

        settings: dict[str, Any] = {"temporal": "exact", "row_kind": True, "tail": True} | options
        return decode_value(self.layout(LayoutContext(**settings)), data, self.type_name)


class Undecodable(UnsupportedSnapshot):
    """The bytes alone do not determine the layout of a value, or its end."""


def fixed_sum(parts: tuple[Serializer, ...], extra: int = 0) -> int:
    """Return the length of values written one after another: fixed only if all are."""
    if any(part.length < 0 for part in parts):
        return VARIABLE
    return extra + sum(part.length for part in parts)


def simple_name(class_name: str) -> str:
    """Return a class's name without package and enclosing classes."""
    return class_name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]
