"""Find out the type arguments of collections in POJOs' fields from their values, where no description gives them.

Flink 1 leaves such fields to Kryo, whose values name the class of each element. Where all elements that were met are
of one class, that is taken for the argument; a plan shows it. It may be another one in the job's class, a superclass:
then Flink refuses the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stateproc.codec.kryo.collections import COLLECTION_BODIES
from stateproc.codec.kryo.recorded_graph import Node
from stateproc.codec.kryo.types import OBJECT, FieldType
from stateproc.codec.layouts import Layout
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.kryo.conversion import ConvertedKryo
from stateproc.serializers.kryo.serializer import Kryo

_MAP = "java.util.Map"
_WITH_ARGUMENTS = ("java.util.Optional", "org.apache.flink.api.java.tuple.")


@dataclass
class ElementClasses:
    """The classes of a field's elements; of a map its keys and its values."""

    field_class: str
    found: tuple[dict[FieldType, None], ...] = field(default_factory=lambda: ({}, {}))

    def watch(self, value: Node) -> None:
        """Note the classes in a value of the field."""
        if value.type is None or value.null:
            return
        is_map = self.field_class == _MAP
        for number, child in enumerate(value.elements):
            if child.type is not None and not child.null:
                self.found[number % 2 if is_map else 0][child.type] = None

    @property
    def type(self) -> FieldType | None:
        """The field's type, if there were elements, all of one class."""
        found = self.found if self.field_class == _MAP else self.found[:1]
        if any(len(classes) != 1 for classes in found):
            return None
        return FieldType(self.field_class, tuple(map(_argument, (next(iter(classes)) for classes in found))))


def _argument(element: FieldType) -> FieldType:
    """A class as an argument; one that has arguments itself gets some, with which Flink leaves the field to Kryo."""
    if element.array:
        return element
    if element.name in COLLECTION_BODIES or element.name.startswith(_WITH_ARGUMENTS):
        return FieldType(element.name, (FieldType(OBJECT),))
    return FieldType(element.name)


@dataclass(frozen=True)
class WatchedKryo(Serializer):
    """A field that Kryo writes, whose values are looked at while they are converted."""

    kryo: Kryo
    classes: ElementClasses = field(compare=False)

    def layout(self, ctx: LayoutContext) -> Layout:
        return ConvertedKryo(self.kryo.setting(ctx), ctx.convert_to, ctx.tail, self.classes.watch)

    @property
    def type_name(self) -> str:
        return self.kryo.type_name
