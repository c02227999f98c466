"""Rules of the runtime's own serializers: values with a time to live."""

from __future__ import annotations

from dataclasses import replace

from stateproc.flink_versions import Release
from stateproc.serializers.core.base import Serializer
from stateproc.serializers.core.compatibility import (
    Answer,
    Comparison,
    Compatibility,
    Effect,
    Note,
    answer_of,
    can_restore,
    incompatible,
)
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.runtime.ttl import TtlSerializer

_LISTS = ("", "ListSerializerSnapshot")
_NULLS = (
    "; RocksDB fails where one is null whose serializer has no form for null, as that of Long: "
    "StateMigrationException: Error while trying to migrate RocksDB map state."
)
"""Measured with Flink 1.20 → 2.3 and 2.3; hashmap reads such nulls."""
TTL_AWARE = Release(2, 0)
"""The first release whose backends turn a time to live on and off (FLINK-32955)."""


def resolve_stored(old: Serializer, new: Serializer, comparison: Comparison) -> Compatibility:
    """Return the answer of a backend, which since Flink 2.0 compares values apart from their time to live.

    Source: TtlAwareSerializerSnapshotWrapper, which looks at values, elements of lists and values of maps.
    """
    found = can_restore(old, comparison)
    if found is not None:
        return found
    if comparison.release >= TTL_AWARE and has_ttl(old) != has_ttl(new):
        lives, other = (old, new) if has_ttl(old) else (new, old)
        if isinstance(lives, TtlSerializer) and _is_collection(other):
            return incompatible("a value that is a list or a map gets or loses its time to live, and not its elements")
        text = "values have no time to live any more"
        if not has_ttl(old):
            text = "values get a time to live from the restore on" + (_NULLS if isinstance(old, MapOf) else "")
        plain = answer_of(without_ttl(old), without_ttl(new), comparison)
        return plain & Compatibility(Answer.AFTER_MIGRATION, (Note(Effect.CHANGE, text),))
    return answer_of(old, new, comparison)


def _is_collection(serializer: Serializer) -> bool:
    """Whether Flink looks at the time to live of elements or map values, whatever kind of state it is."""
    if isinstance(serializer, ListOf):
        return serializer.snapshot_class.rpartition(".")[2] in _LISTS and not serializer.in_view
    return isinstance(serializer, MapOf) and serializer.kind == "Map" and not serializer.in_view


def has_ttl(serializer: Serializer) -> bool:
    """Whether values, elements or map values have a time to live."""
    return isinstance(_stored(serializer), TtlSerializer)


def without_ttl(serializer: Serializer) -> Serializer:
    """Return the serializer of the same values without a time to live."""
    stored = _stored(serializer)
    if not isinstance(stored, TtlSerializer):
        return serializer
    if isinstance(serializer, ListOf):
        return replace(serializer, element=stored.value)
    return replace(serializer, value=stored.value) if isinstance(serializer, MapOf) else stored.value


def _stored(serializer: Serializer) -> Serializer:
    if isinstance(serializer, ListOf):
        return serializer.element
    return serializer.value if isinstance(serializer, MapOf) else serializer
