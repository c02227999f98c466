"""Describe the types of one registered state by its serializers' snapshots."""

from __future__ import annotations

from dataclasses import replace

from stateproc.metadata.backend import KeyedHeader, StateMetaInfo
from stateproc.model.description import DescribedType, SnapshotClasses, observed_snapshot, type_node
from stateproc.readers.state_descriptor import KeyedState, StateKind, keyed_state
from stateproc.readers.state_names import OperatorNames
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.core.registry import ObservedSnapshot

_VALUE = "VALUE_SERIALIZER"


def keyed_types(
    state: KeyedState, header: KeyedHeader, context: LayoutContext, names: OperatorNames | None = None
) -> tuple[DescribedType, ...]:
    """Describe key, namespace and values of a keyed state.

    Args:
        state: The state.
        header: The header that registers it.
        context: How values are decoded.
        names: Names for the fields of SQL rows, from the plan of the query.
    """
    info = header.states[state.state_id]
    key, of_key = _observed(header.key_snapshot, header.key)
    observed, classes = _observed_info(info)
    found = keyed_state(observed, state.state_id, key) or state
    classes = {**of_key, **classes}
    if names is not None:
        plain, found = found, names.applied(found)
        classes = {**classes, **_classes_of_renamed(plain, found, classes)}
    parts: list[tuple[str, Serializer, LayoutContext]] = [("key", found.key, context.inner)]
    if found.has_namespace:
        parts.append(("namespace", found.namespace, context.inner))
    if found.kind.is_queue:
        return tuple(type_node(*part, classes) for part in parts)
    if found.user_key is not None:
        parts.append(("map key", found.user_key, context))
    # A list's elements follow one another: of one without a known length the end is not known.
    inside = context.inner if found.kind is StateKind.LIST else context
    name = {StateKind.LIST: "element", StateKind.MAP: "map value"}.get(found.kind, "value")
    return tuple(type_node(*part, classes) for part in (*parts, (name, found.value, inside)))


def operator_types(info: StateMetaInfo, context: LayoutContext) -> tuple[DescribedType, ...]:
    """Describe the elements of a list state, or the entries of a broadcast state."""
    observed, classes = _observed_info(info)
    key, value = observed.key_serializer, observed.value_serializer
    parts = [("map key", key, context.inner)] if key is not None else []
    parts += [("map value" if parts else "element", value, context.inner if parts else context)] if value else []
    return tuple(type_node(name, serializer, inside, classes) for name, serializer, inside in parts if serializer)


def value_snapshot(info: StateMetaInfo) -> tuple[str | None, int | None]:
    """Return class and version of the snapshot of the serializer that is registered for the values."""
    read = observed_snapshot(info.snapshots[_VALUE]) if _VALUE in info.snapshots else None
    if read is None:
        serializer = info.value_serializer
        return getattr(serializer, "class_name", None), None
    outer = read[1][id(read[0])]
    return outer.class_name, outer.version


def _classes_of_renamed(plain: KeyedState, named: KeyedState, classes: SnapshotClasses) -> SnapshotClasses:
    """Return the snapshots of the serializers whose rows have other names, which are other objects."""
    pairs = [(plain.key, named.key), (plain.namespace, named.namespace), (plain.value, named.value)]
    if plain.user_key is not None and named.user_key is not None:
        pairs.append((plain.user_key, named.user_key))
    found: dict[int, ObservedSnapshot] = {}
    while pairs:
        before, after = pairs.pop()
        if id(before) in classes:
            found[id(after)] = classes[id(before)]
        pairs += zip(before.nested, after.nested, strict=False)
    return found


def _observed(data: bytes, known: Serializer) -> tuple[Serializer, SnapshotClasses]:
    return (observed_snapshot(data) if data else None) or (known, {})


def _observed_info(info: StateMetaInfo) -> tuple[StateMetaInfo, SnapshotClasses]:
    """Return the state with serializers that were read again, and the classes of their snapshots."""
    serializers = dict(info.serializers)
    classes: dict[int, ObservedSnapshot] = {}
    for role, data in info.snapshots.items():
        read = observed_snapshot(data)
        if read is not None:
            serializers[role] = read[0]
            classes.update(read[1])
    return replace(info, serializers=serializers), classes
