"""The table of classes whose bodies are known, put together from its families."""

from __future__ import annotations

from stateproc.codec.kryo.collections import COLLECTION_BODIES, array
from stateproc.codec.kryo.graph import Body
from stateproc.codec.kryo.scalars import SCALAR_BODIES
from stateproc.codec.kryo.times import TIME_BODIES

__all__ = ["array", "body_of"]

_BODIES: dict[str, Body] = SCALAR_BODIES | TIME_BODIES | COLLECTION_BODIES


def body_of(class_name: str) -> Body | None:
    """The reader of a known class; None for a class only its user knows."""
    return _BODIES.get(class_name)
