"""Find out which of the user's class descriptions the values of a type depend on."""

from __future__ import annotations

from collections.abc import Iterable

from stateproc.codec.kryo.types import FINAL_CLASSES
from stateproc.serializers.core.base import LayoutContext, Serializer
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.pojo.type_extraction import ReleaseDependent


def described_classes(serializers: Iterable[Serializer], ctx: LayoutContext) -> tuple[str, ...]:
    """Return the described classes that values of these types may be of, or contain.

    Nothing in the bytes confirms a description: where they do not fit, it may be wrong rather than the file damaged.
    """
    classes = parse_classes(ctx.classes)
    found: dict[str, None] = {}
    waiting = list(serializers) if classes else []
    while waiting:
        serializer = waiting.pop()
        if isinstance(serializer, ReleaseDependent):
            waiting.append(serializer.of(ctx))
        elif isinstance(serializer, Kryo):
            if serializer.class_name in classes:
                found[serializer.class_name] = None
            elif serializer.class_name not in FINAL_CLASSES:
                return tuple(classes)  # each value names its own class
        else:
            if isinstance(serializer, Pojo):
                for subclass in serializer.described_subclasses(ctx):
                    if subclass.class_name not in found:
                        found[subclass.class_name] = None
                        waiting.append(subclass.serializer)
            waiting += serializer.nested
    return tuple(found)
