"""Read the timers of an operator: priority-queue states, and heap timers in raw keyed state."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.model.keyed_state import KeyedState
from stateproc.model.operator_context import OperatorContext
from stateproc.model.schema_merging import merged_type
from stateproc.model.state import State
from stateproc.readers.read_options import ReadOptions
from stateproc.readers.splits import MappedSplit, ScanRequest, Split
from stateproc.readers.state_descriptor import TIMER_PREFIX
from stateproc.readers.timers import SERVICE, RawTimers, TimerService, named_service, with_service

if TYPE_CHECKING:
    from typing_extensions import Self

    from stateproc.model.description import DescribedType, Storage


@dataclass(frozen=True)
class NamedSplit(MappedSplit):
    """Another split's timers, with their service's name."""

    service: str

    def mapped(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        yield from with_service(batch, self.service)


class TimerState(State):
    """All timers of one time domain: key_group, timestamp (ms, as registered), key, [namespace], service."""

    def __init__(
        self,
        operator: OperatorContext,
        event: bool,
        queues: Sequence[KeyedState],
        raw: Sequence[RawTimers],
        unreadable: Sequence[SnapshotError] = (),
    ) -> None:
        name = "event timers" if event else "processing timers"
        super().__init__(operator, name, name, "keyed")
        self._unreadable = tuple(unreadable)
        self._event, self._queues, self._raw = event, tuple(queues), tuple(raw)
        self._names = None if operator.row_names is None else operator.row_names.others
        services = [service for item in raw for service in self._named_services(item)]
        keys = [queue.key_type for queue in queues] + [service.key.type_name for service in services]
        namespaces = [queue.namespace_type for queue in queues]
        namespaces += [_namespace(service) for service in services]
        self.key_type = keys[0] if keys else None
        self.namespace_type = next((name for name in namespaces if name is not None), None)
        self.value_type = "timestamp"

    def with_options(self, options: ReadOptions) -> Self:
        twin = super().with_options(options)
        twin._queues = tuple(queue.with_options(options) for queue in self._queues)
        return twin

    def within(self, key_groups: Collection[int]) -> Self:
        """Return the timers without the files of other subtasks."""
        twin = super().within(key_groups)
        twin._queues = tuple(queue.within(key_groups) for queue in self._queues)
        twin._raw = tuple(item.within(key_groups) for item in self._raw)
        return twin

    def _named_services(self, raw: RawTimers) -> list[TimerService]:
        return [named_service(service, self._names) for service in raw.services]

    @property
    def queues(self) -> dict[str, KeyedState]:
        """The queue states by the name of their service."""
        return {queue.name[len(TIMER_PREFIX) :].split("_", 1)[1]: queue for queue in self._queues}

    @property
    def has_raw_timers(self) -> bool:
        """Whether timers are stored in raw keyed state, or files that may contain such cannot be read."""
        return bool(self._raw or self._unreadable)

    @property
    def services(self) -> tuple[str, ...]:
        """The names of the timer services."""
        names = [queue.name.split("_", 3)[-1] for queue in self._queues]
        names += [service.name for item in self._raw for service in item.services]
        return tuple(dict.fromkeys(names))

    @property
    def problem(self) -> SnapshotError | None:
        """Why the timers cannot be read; None if they can."""
        problems = (super().problem, *(queue.problem for queue in self._queues))
        return next((problem for problem in problems if problem is not None), None)

    def _types(self) -> tuple[DescribedType, ...]:
        from stateproc.model.description import type_node  # Lazy: start-up.

        if self._queues:
            return self._queues[0]._types()
        service, context = self._named_services(self._raw[0])[0], self.operator.options.context.inner
        parts = [("key", service.key)] + ([("namespace", service.namespace)] if _namespace(service) else [])
        return tuple(type_node(name, serializer, context, {}) for name, serializer in parts)

    def _storage(self) -> Storage:
        from stateproc.model.description import Storage  # Lazy: start-up.

        return self._queues[0]._storage() if self._queues else Storage(layouts=("raw timers",))

    @property
    def file_problem(self) -> SnapshotError | None:
        return next(
            (error for error in (*self._unreadable, *(queue.file_problem for queue in self._queues)) if error), None
        )

    @property
    def names_in_files(self) -> tuple[str, ...]:
        return tuple(queue.name for queue in self._queues)

    def schema(self, *, flatten: bool = False) -> pa.Schema:
        types: dict[str, pa.DataType] = {"key_group": pa.int32(), "timestamp": pa.int64()}
        context = self.operator.options.context.inner
        for queue in self._queues:
            for item in queue.schema():
                _add(types, item.name, item.type)
        for raw in self._raw:
            for service in self._named_services(raw):
                _add(types, "key", service.key.layout(context).arrow_type)
                if _namespace(service) is not None:
                    _add(types, "namespace", service.namespace.layout(context).arrow_type)
        order = ["key_group", "timestamp", "key", "namespace"]
        return pa.schema([pa.field(name, types[name]) for name in order if name in types] + [(SERVICE, pa.string())])

    def plan_splits(self, request: ScanRequest) -> list[Split]:
        splits: list[Split] = []
        for error in self._unreadable:
            raise error
        queued = ScanRequest(key_groups=request.key_groups, split_bytes=request.split_bytes)
        for service, queue in self.queues.items():
            for split in queue.plan_splits(queued):
                splits.append(NamedSplit(split, service))
        for raw in self._raw:
            for service_name in raw.service_names:
                options = self.operator.options
                splits += raw.splits(
                    service_name, self._event, options, request.key_groups, request.split_bytes, self._names
                )
        return splits

    def key_groups_of(self, keys: Sequence[Any]) -> set[int] | None:
        return self._queues[0].key_groups_of(keys) if self._queues and not self._raw else None


def _namespace(service: TimerService) -> str | None:
    name = service.namespace.type_name
    return None if name == "VoidNamespace" else name


def _add(types: dict[str, pa.DataType], name: str, found: pa.DataType) -> None:
    try:
        types[name] = merged_type(types.get(name, found), found)
    except UnsupportedSnapshot as error:
        raise UnsupportedSnapshot(
            f"the operator's timer services differ in the type of their {name}s: {error.message}",
            advice="read the queue states by name instead (state '_timer_state/…')",
        ) from error
