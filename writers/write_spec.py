"""What tasks need to know of a write: operators, their headers, the state files. Picklable, without rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.flink_versions import Release
from stateproc.keygroups.ranges import check_max_parallelism, key_group_range
from stateproc.metadata.snapshot import MasterState, OperatorEntry, SubtaskState
from stateproc.metadata.stream_handles import ByteStreamHandle
from stateproc.serializers import LayoutContext
from stateproc.writers.commit.staging import Staging
from stateproc.writers.formats.keyed_file import KeyedStateHeader, OperatorStateHeader
from stateproc.writers.formats.keyed_formats import OutputFormat
from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.key_collisions import KeyCollisions


def check_parallelism(parallelism: int, max_parallelism: int, operator: str) -> None:
    """Raise InvalidOption unless an operator can have so many subtasks and key groups."""
    check_max_parallelism(max_parallelism)
    if not isinstance(parallelism, int) or not 0 < parallelism <= max_parallelism:
        raise InvalidOption(
            f"parallelism {parallelism!r} of operator {operator}",
            advice=f"give one from 1 to {max_parallelism}, the max parallelism",
        )


@dataclass(frozen=True)
class OperatorWriteSpec:
    """One operator of the snapshot to be written.

    ``carried``: subtasks whose handles stay (their files are in the directory already). ``collisions``: finds keys that
    become one, if keys get another type in which some may.
    """

    operator_id: str
    uid: str | None
    name: str | None
    parallelism: int
    max_parallelism: int
    keyed: KeyedStateHeader | None = None
    operator: OperatorStateHeader | None = None
    carried: tuple[SubtaskState, ...] = ()
    coordinator: ByteStreamHandle | None = None
    finished: bool = False
    collisions: KeyCollisions | None = None

    @property
    def display(self) -> str:
        return self.uid or self.name or self.operator_id

    def carrying(self, state: OperatorEntry) -> OperatorWriteSpec:
        """Return the operator with what ``state`` has of an existing one. Empty subtasks are left out."""
        subtasks = tuple(item for item in state.subtasks if item != SubtaskState(item.index))
        return replace(self, carried=subtasks, coordinator=state.coordinator, finished=state.finished)

    def state(self, subtasks: Sequence[SubtaskState]) -> OperatorEntry:
        """Return the operator as ``_metadata`` contains it."""
        return OperatorEntry(
            self.operator_id,
            self.parallelism,
            self.max_parallelism,
            self.name,
            self.uid,
            self.coordinator,
            tuple(subtasks),
            self.finished,
        )


@dataclass(frozen=True)
class StateFile:
    """One state file to be written: of a subtask's keyed state (``key_groups``) or of its operator state (None)."""

    operator: int
    subtask: int
    key_groups: range | None


@dataclass(frozen=True)
class WriteSpec:
    """A whole write. Entries refer to their file by its position in ``state_files``.

    ``context``: the layout of values; writers of native heap files need it to find the end of each value.
    ``rocksdb``: how tables of native RocksDB snapshots are written. ``master_states``: states of hooks on the
    JobManager, as the source snapshot has them.
    """

    staging: Staging
    release: Release
    operators: tuple[OperatorWriteSpec, ...]
    format: OutputFormat = OutputFormat.CANONICAL
    compressed: bool = False
    verify: bool = True
    checkpoint_id: int = 1
    context: LayoutContext = field(default_factory=LayoutContext, repr=False)
    rocksdb: TableOptions = field(default_factory=TableOptions)
    master_states: tuple[MasterState, ...] = ()

    @cached_property
    def state_files(self) -> tuple[StateFile, ...]:
        """All state files; each is known by its position here."""
        return tuple(self._state_files())

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: tasks enumerate the state files themselves."""
        return {name: value for name, value in self.__dict__.items() if name != "state_files"}

    def _state_files(self) -> Iterator[StateFile]:
        for index, operator in enumerate(self.operators):
            for subtask in range(operator.parallelism):
                if operator.keyed is not None:
                    groups = key_group_range(operator.max_parallelism, operator.parallelism, subtask)
                    yield StateFile(index, subtask, groups)
                if operator.operator is not None:
                    yield StateFile(index, subtask, None)
