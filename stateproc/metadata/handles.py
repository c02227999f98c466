"""Re-export all state handles of ``_metadata``, type bytes 0 to 17."""

from stateproc.metadata.channel_state import (
    ChannelHandle,
    ChannelOffsets,
    ChannelStateHandle,
    MergedChannelHandle,
    read_channel_handle,
)
from stateproc.metadata.keyed_handles import (
    ChangelogHandle,
    FileChangelogHandle,
    IncrementalHandle,
    InMemoryChangelogHandle,
    KeyedHandle,
    read_keyed_handle,
)
from stateproc.metadata.operator_handles import (
    DistributionMode,
    OperatorHandle,
    OperatorStreamHandle,
    StatePartition,
    read_operator_handle,
)
from stateproc.metadata.stream_handles import (
    CANONICAL_TYPE,
    ByteStreamHandle,
    EmptySegmentHandle,
    FileHandle,
    KeyGroupsHandle,
    RelativeFileHandle,
    SegmentHandle,
    StreamHandle,
    read_stream_handle,
)

__all__ = [
    "CANONICAL_TYPE",
    "ByteStreamHandle",
    "ChangelogHandle",
    "ChannelHandle",
    "ChannelOffsets",
    "ChannelStateHandle",
    "DistributionMode",
    "EmptySegmentHandle",
    "FileChangelogHandle",
    "FileHandle",
    "InMemoryChangelogHandle",
    "IncrementalHandle",
    "KeyGroupsHandle",
    "KeyedHandle",
    "MergedChannelHandle",
    "OperatorHandle",
    "OperatorStreamHandle",
    "RelativeFileHandle",
    "SegmentHandle",
    "StatePartition",
    "StreamHandle",
    "read_channel_handle",
    "read_keyed_handle",
    "read_operator_handle",
    "read_stream_handle",
]
