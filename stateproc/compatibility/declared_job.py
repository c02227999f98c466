"""What a job declares: operators, their parallelism, states with kinds and serializers; as a snapshot contains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from stateproc.errors import UnknownKeyType
from stateproc.metadata.backend import DISTRIBUTION_MODE, PRIORITY_QUEUE, StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.model.operator_state import DISTRIBUTIONS
from stateproc.model.snapshot import SnapshotContents
from stateproc.readers.changelog.changelog_file import ChangelogFile
from stateproc.readers.state_descriptor import TIMER_PREFIX
from stateproc.serializers import PROXY_VERSION, Serializer
from stateproc.serializers.compatibility import Comparison, same_job

KEY, NAMESPACE, MAP_KEY, VALUE = "key", "namespace", "map key", "value"
"""Roles of a state's serializers. The key of keyed state belongs to the operator; KEY is that of broadcast state."""
_ROLES = {
    "KEY_SERIALIZER": KEY,
    "NAMESPACE_SERIALIZER": NAMESPACE,
    "USER_KEY_SERIALIZER": MAP_KEY,
    "VALUE_SERIALIZER": VALUE,
}
_PROXY = PROXY_VERSION.to_bytes(4, "big")
KEYED, TIMERS, SPLIT, UNION, BROADCAST = "keyed", "timers", "split", "union", "broadcast"


@dataclass(frozen=True)
class DeclaredState:
    """A state as a backend registers it.

    Attributes:
        name: Its name in the backend.
        kind: value, list, map, reducing, aggregating, timers, broadcast.
        distribution: keyed, timers, split, union or broadcast.
        serializers: By role; values of lists and maps are serializers of whole lists and maps.
    """

    name: str
    kind: str
    distribution: str
    serializers: Mapping[str, Serializer] = field(hash=False)

    @property
    def is_keyed(self) -> bool:
        """Whether it is in the keyed backend, timers too."""
        return self.distribution in (KEYED, TIMERS)

    @property
    def identity(self) -> tuple[bool, str]:
        """What distinguishes it from other states of the operator."""
        return self.is_keyed, self.name


@dataclass(frozen=True)
class DeclaredOperator:
    """An operator of a job.

    Attributes:
        operator_id: The hash of its uid, 32 hex digits.
        uid: Its uid, if it is known.
        name: Its name, if it is known.
        parallelism: The number of its subtasks; None where nothing says.
        max_parallelism: The number of key groups; None where Flink chooses it.
        keys: The key serializers of its files, which are one unless the files differ; empty without keyed state.
        states: Its states; one whose files differ has several.
        layouts: How keyed state is stored: canonical, heap, rocksdb or changelog.
        misread: Why state of this operator in the snapshot means something else, though its types may fit; None where
            it does not, or nothing says.
        not_compared: What about its state is not compared; None if all is.
        begins: What is lost where it begins without state; None where that is for the job to know.
        has_unknown_keys: Whether it has a changelog that does not contain the key's serializer.
        vertex: Which vertex of the job it is in, by its place in a job graph, which others may be in, too; None where
            nothing says.
    """

    operator_id: str
    uid: str | None = None
    name: str | None = None
    parallelism: int | None = None
    max_parallelism: int | None = None
    keys: tuple[Serializer, ...] = ()
    states: tuple[DeclaredState, ...] = ()
    layouts: tuple[str, ...] = ()
    misread: str | None = None
    not_compared: str | None = None
    begins: str | None = None
    has_unknown_keys: bool = False
    vertex: int | None = None

    @property
    def is_keyed(self) -> bool:
        """Whether it has key groups."""
        return bool(self.keys) or self.has_unknown_keys


def declared_operators(snapshot: SnapshotContents) -> tuple[DeclaredOperator, ...]:
    """Return what the operators of a snapshot declare. Reads the headers of state files.

    States that only a damaged or missing header describes are not there; ``Operator.problems`` says so. Those of a
    changelog whose keys have an unknown type are.
    """
    return tuple(_declared(operator) for operator in snapshot.operators)


def _declared(operator: Operator) -> DeclaredOperator:
    unreadable = {id(file): error for file, error in operator.unreadable_keyed_files}
    logs = [
        file
        for file in operator.keyed_files
        if isinstance(file, ChangelogFile) and isinstance(unreadable.get(id(file)), UnknownKeyType)
    ]
    files = [file for file in operator.keyed_files if id(file) not in unreadable]
    headers = {id(header): header for file in files if (header := file.header) is not None}.values()
    services = [service for raw in operator.raw_timers for service in raw.services]
    keys = [(header.key_snapshot, header.key) for header in headers]
    keys += [(_PROXY + service.key_snapshot, service.key) for service in services]
    declared = chain((info for header in headers for info in header.states), *(log.logged_states() for log in logs))
    states = [_keyed(info) for info in _distinct(declared)]
    states += [
        DeclaredState(service.name, TIMERS, TIMERS, {KEY: service.key, NAMESPACE: service.namespace})
        for service in {service.name: service for service in services}.values()
    ]
    views = operator.operator_states
    states += [_of_operator(info) for info in _distinct(info for view in views for info in view.infos)]
    return DeclaredOperator(
        operator.operator_id,
        operator.uid,
        operator.name,
        operator.parallelism,
        operator.max_parallelism,
        tuple(dict(keys).values()),
        tuple(states),
        tuple(dict.fromkeys(file.layout for file in (*files, *logs))),
        has_unknown_keys=bool(logs),
    )


def _distinct(infos: Iterable[StateMetaInfo]) -> Iterable[StateMetaInfo]:
    """Each declaration once: thousands of subtasks mostly have the same."""
    return {(info.name, info.backend_type, *info.snapshots.items()): info for info in infos}.values()


def _keyed(info: StateMetaInfo) -> DeclaredState:
    if info.backend_type == PRIORITY_QUEUE:
        return DeclaredState(info.name.removeprefix(TIMER_PREFIX), TIMERS, TIMERS, _serializers(info))
    return DeclaredState(info.name, info.options.get("KEYED_STATE_TYPE", "UNKNOWN").lower(), KEYED, _serializers(info))


def _of_operator(info: StateMetaInfo) -> DeclaredState:
    distribution = DISTRIBUTIONS.get(info.options.get(DISTRIBUTION_MODE, ""), SPLIT)
    return DeclaredState(
        info.name, BROADCAST if distribution == BROADCAST else "list", distribution, _serializers(info)
    )


def _serializers(info: StateMetaInfo) -> dict[str, Serializer]:
    return {_ROLES[role]: serializer for role, serializer in info.serializers.items() if role in _ROLES}


def same_job_on(operators: Iterable[DeclaredOperator], comparison: Comparison) -> tuple[DeclaredOperator, ...]:
    """Return what the same job declares on the release of ``comparison``."""
    return tuple(
        replace(
            operator,
            keys=tuple(same_job(key, comparison) for key in operator.keys),
            states=tuple(_same(state, comparison) for state in operator.states),
        )
        for operator in operators
    )


def _same(state: DeclaredState, comparison: Comparison) -> DeclaredState:
    serializers = {role: same_job(serializer, comparison) for role, serializer in state.serializers.items()}
    return replace(state, serializers=serializers)
