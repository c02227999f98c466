"""Decide as Flink does whether a serializer takes an older snapshot: the rules of all families of serializers.

The interface is in `core/compatibility.py`. A family's rules are in its package, in a module of this name.
"""

from __future__ import annotations

import stateproc.serializers.avro.compatibility
import stateproc.serializers.flinkx.compatibility
import stateproc.serializers.java.compatibility
import stateproc.serializers.kryo.compatibility
import stateproc.serializers.pojo.compatibility
import stateproc.serializers.scala_compatibility
import stateproc.serializers.table.compatibility  # noqa: F401  (each registers its rules)
from stateproc.serializers.core.compatibility import (
    Answer,
    Comparison,
    Compatibility,
    Effect,
    Note,
    Undeclared,
    can_restore,
    resolve,
    same_job,
)
from stateproc.serializers.runtime.compatibility import resolve_stored

__all__ = [
    "Answer",
    "Comparison",
    "Compatibility",
    "Effect",
    "Note",
    "Undeclared",
    "can_restore",
    "resolve",
    "resolve_stored",
    "same_job",
]
