"""Where a snapshot's bytes are: path rules, byte sources for stream handles, ranged reads, over fsspec."""

from stateproc.storage.paths import SnapshotLocation, locate
from stateproc.storage.ranges import read_ranges
from stateproc.storage.sources import ByteSource, FileSource, InlineSource, open_handle
from stateproc.storage.store import StorePath

__all__ = [
    "ByteSource",
    "FileSource",
    "InlineSource",
    "SnapshotLocation",
    "StorePath",
    "locate",
    "open_handle",
    "read_ranges",
]
