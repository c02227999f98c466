"""Pair the operators and states of two snapshots, and find what differs in how they are declared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from stateproc.errors import InvalidOption, NotFound, not_found
from stateproc.model.keyed_state import KeyedState
from stateproc.model.operator import Operator
from stateproc.model.state import State

if TYPE_CHECKING:
    from stateproc.model.snapshot import SnapshotContents


@dataclass(frozen=True)
class PropertyChange:
    """A property that two snapshots have in different forms.

    Attributes:
        left: Its value in the first snapshot; None if it has none.
        right: Its value in the second snapshot.
        layout: Whether it says only how the same contents are stored: parallelism, serializers of the same type.
    """

    name: str
    left: Any
    right: Any
    layout: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return values for JSON."""
        return {"name": self.name, "left": self.left, "right": self.right, "layout": self.layout}


@dataclass(frozen=True)
class StatePair:
    """A state of an operator, in one snapshot or in both.

    Attributes:
        left: The state in the first snapshot; None if it has none.
        right: The state in the second snapshot.
    """

    name: str
    left: State | None
    right: State | None

    @property
    def view(self) -> State:
        """The state in the second snapshot if it is there, else in the first."""
        view = self.left if self.right is None else self.right
        assert view is not None
        return view


@dataclass(frozen=True)
class OperatorPair:
    """An operator, in one snapshot or in both.

    Attributes:
        operator_id: The operator's id (uid hash).
        left: The operator in the first snapshot; None if it has none.
        right: The operator in the second snapshot.
    """

    operator_id: str
    left: Operator | None
    right: Operator | None
    states: tuple[StatePair, ...]

    @property
    def uid(self) -> str | None:
        """The uid, as far as one of the snapshots knows it."""
        return next((item.uid for item in (self.right, self.left) if item is not None and item.uid), None)

    @property
    def name(self) -> str | None:
        """The operator's name, which snapshots contain from Flink 2.0 on."""
        return next((item.name for item in (self.right, self.left) if item is not None and item.name), None)


def operator_pairs(
    left: SnapshotContents, right: SnapshotContents, uids: Iterable[str] = (), states: Iterable[str] = ()
) -> list[OperatorPair]:
    """Pair operators by their ids, and their states by name.

    Raises:
        NotFound: Neither snapshot has one of these operators or states.
        InvalidOption: Only one of the snapshots was opened with a plan.
    """
    sides = [{item.operator_id: item for item in snapshot.operators} for snapshot in (left, right)]
    uids = tuple(uids)
    if uids:
        sides = [{}, {}]
        for uid in uids:
            for side, operator in zip(sides, _named(uid, left, right), strict=True):
                if operator is not None:
                    side[operator.operator_id] = operator
    names, pairs = frozenset(states), []
    for operator_id in dict.fromkeys([*sides[0], *sides[1]]):
        one, two = (side.get(operator_id) for side in sides)
        check_names(one, two)
        pairs.append(OperatorPair(operator_id, one, two, _state_pairs(one, two, names)))
    _check_found(names, pairs)
    return pairs


def check_names(left: Operator | None, right: Operator | None) -> None:
    """Raise InvalidOption if a plan names the fields of one snapshot only: no rows would be equal."""
    if left is not None and right is not None:
        without = [operator.context.row_names is None for operator in (left, right)]
        if without[0] != without[1]:
            raise InvalidOption(
                "one snapshot was opened with the plan of its query and the other without it",
                advice="open both with the same plan=…, or both without it",
            )


def _named(uid: str, left: SnapshotContents, right: SnapshotContents) -> list[Operator | None]:
    """Return the operator in both snapshots. Raises NotFound if it is in neither."""
    found: list[Operator | None] = []
    errors = []
    for snapshot in (left, right):
        try:
            found.append(snapshot.operator(uid))
        except NotFound as error:
            found.append(None)
            errors.append(error)
    if len(errors) == len(found):
        raise errors[1]
    return found


def _check_found(names: Iterable[str], pairs: Iterable[OperatorPair]) -> None:
    known = {pair.name for operator in pairs for pair in operator.states}
    for name in names:
        if name not in known:
            raise not_found("state", name, known, "the snapshots")


def _state_pairs(left: Operator | None, right: Operator | None, names: frozenset[str]) -> tuple[StatePair, ...]:
    sides = [
        {} if operator is None else {(one.name, one.is_keyed): one for one in operator.states}
        for operator in (left, right)
    ]
    found = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        if not names or key[0] in names:
            found.append(StatePair(key[0], sides[0].get(key), sides[1].get(key)))
    return tuple(found)


def operator_changes(pair: OperatorPair) -> tuple[PropertyChange, ...]:
    """Return what differs in an operator that both snapshots have, apart from its states."""
    if pair.left is None or pair.right is None:
        return ()
    checks: tuple[tuple[str, Callable[[Operator], Any]], ...] = (
        ("parallelism", lambda operator: operator.parallelism),
        ("max parallelism", lambda operator: operator.max_parallelism),
    )
    return tuple(
        PropertyChange(name, read(pair.left), read(pair.right), layout=True)
        for name, read in checks
        if read(pair.left) != read(pair.right)
    )


def state_changes_of(pair: StatePair) -> tuple[PropertyChange, ...]:
    """Return what differs in the declaration of a state that both snapshots have."""
    if pair.left is None or pair.right is None:
        return ()
    checks: tuple[tuple[str, Callable[[State], Any]], ...] = (
        ("kind", lambda state: state.kind),
        ("distribution", lambda state: state.distribution),
        ("key type", lambda state: state.key_type),
        ("namespace type", lambda state: state.namespace_type),
        ("value type", lambda state: state.value_type),
        ("TTL", lambda state: state.ttl),
    )
    found = [
        PropertyChange(name, read(pair.left), read(pair.right))
        for name, read in checks
        if read(pair.left) != read(pair.right)
    ]
    if not found and _has_other_serializers(pair.left, pair.right):
        found.append(PropertyChange("serializer settings", None, None, layout=True))
    return tuple(found)


def _has_other_serializers(left: State, right: State) -> bool:
    """Whether states of the same types have serializers of other settings, such as registered subclasses."""
    if not (isinstance(left, KeyedState) and isinstance(right, KeyedState)):
        return False
    return replace(left.keyed, state_id=0) != replace(right.keyed, state_id=0)


def coordinator_changes(pair: OperatorPair) -> tuple[PropertyChange, ...]:
    """Return what differs in the state of an operator's coordinator: of a source, what its enumerator knows."""
    if pair.left is None or pair.right is None:
        return ()
    data = [None if handle is None else handle.data for handle in _coordinators(pair)]
    if data[0] == data[1]:
        return ()
    shown = [_coordinator(operator) for operator in (pair.left, pair.right)]
    return () if shown[0] == shown[1] else (PropertyChange("coordinator", *shown),)


def _coordinators(pair: OperatorPair) -> list[Any]:
    return [None if operator is None else operator.metadata.coordinator for operator in (pair.left, pair.right)]


def _coordinator(operator: Operator) -> Any:
    """Return a coordinator's state as values for JSON: decoded, with lists in one order, or the hash of its bytes."""
    handle, found = operator.metadata.coordinator, operator.coordinator
    if handle is None or found is None:
        return None
    decoded = found.get("decoded")
    if decoded is None:
        return {"bytes": len(handle.data), "sha256": sha256(handle.data).hexdigest()}
    return _ordered(decoded)


def _ordered(value: Any) -> Any:
    """Return a decoded value with its lists sorted: enumerators keep sets."""
    if isinstance(value, dict):
        return {name: _ordered(item) for name, item in value.items()}
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=repr)
    return value.hex() if isinstance(value, bytes) else value
