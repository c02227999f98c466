"""The contents of ``_metadata`` as dataclasses (org.apache.flink.runtime.checkpoint)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stateproc.metadata.keyed_handles import KeyedHandle
from stateproc.metadata.operator_handles import ChannelStateHandle, OperatorHandle
from stateproc.metadata.stream_handles import ByteStreamHandle


@dataclass(frozen=True, slots=True)
class MasterState:
    """State of a hook on the JobManager (MasterState)."""

    name: str
    version: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """State of one subtask (OperatorSubtaskState); absent state is None or empty.

    ``reused_from``: the id of the checkpoint that the state is of, where a regional checkpoint (Flink 2.4) has taken it
    over because the subtask's region had failed.
    """

    index: int
    finished: bool = False
    managed_operator: OperatorHandle | None = None
    raw_operator: OperatorHandle | None = None
    managed_keyed: KeyedHandle | None = None
    raw_keyed: KeyedHandle | None = None
    input_channels: tuple[ChannelStateHandle, ...] = ()
    output_channels: tuple[ChannelStateHandle, ...] = ()
    reused_from: int | None = None


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """What ``_metadata`` says about one operator (Flink: OperatorState).

    ``operator_id`` is 32 hex digits; name and uid are known since Flink 2.0. ``max_parallelism`` is the
    number of key groups. ``finished``: the whole operator was done, with no state.
    """

    operator_id: str
    parallelism: int
    max_parallelism: int
    name: str | None = None
    uid: str | None = None
    coordinator: ByteStreamHandle | None = None
    subtasks: tuple[SubtaskState, ...] = ()
    finished: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointProperties:
    """CheckpointProperties: what kind of snapshot this is; None where the file does not say.

    ``flags`` are the boolean fields as written (forced, discardSubsumed, unclaimed and so on), ``raw`` the Java object
    stream they were read from, which is written unchanged.
    """

    is_savepoint: bool | None
    format: Literal["CANONICAL", "NATIVE"] | None
    name: str | None
    flags: Mapping[str, bool] = field(default_factory=dict, hash=False)
    raw: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SnapshotMetadata:
    """The whole of a ``_metadata`` file (CheckpointMetadata). ``version`` is 2 to 7."""

    version: int
    checkpoint_id: int
    master_states: tuple[MasterState, ...]
    operators: tuple[OperatorEntry, ...]
    properties: CheckpointProperties | None = None
