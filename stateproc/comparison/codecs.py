"""Whether equal bytes of two states' entries are equal rows: what their serializers have to do with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from stateproc.readers.state_descriptor import KeyedState, StateKind
from stateproc.serializers import Serializer
from stateproc.serializers.kryo.serializer import Kryo


def have_equal_codecs(targets: Sequence[KeyedState], kryo: Collection[object]) -> bool:
    """Return whether equal bytes are equal rows: all states have the same serializers, which encode alike.

    Args:
        targets: The states as their files describe them.
        kryo: The settings of Kryo of both snapshots, without repetitions.
    """
    if any(_codec(target) != _codec(targets[0]) for target in targets[1:]):
        return False
    return len(kryo) == 1 or not any(has_kryo(part) for target in targets[:1] for part in _serializers(target))


def has_kryo(serializer: Serializer) -> bool:
    """Return whether Kryo writes a value or a part of it."""
    return isinstance(serializer, Kryo) or any(has_kryo(part) for part in serializer.nested)


def _codec(target: KeyedState) -> tuple[object, ...]:
    """Return what determines the meaning of a state's bytes."""
    kind = target.kind if target.kind in (StateKind.LIST, StateKind.MAP) else StateKind.VALUE
    return kind, target.key, target.namespace, target.user_key, target.value, target.ttl


def _serializers(target: KeyedState) -> Iterator[Serializer]:
    yield from (item for item in (target.key, target.namespace, target.user_key, target.value) if item is not None)
