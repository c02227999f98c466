"""Where a snapshot's bytes are: path rules, byte sources for stream handles, ranged reads, over fsspec."""

from stateproc.storage.filesystem import Entry, list_directory
from stateproc.storage.paths import SnapshotLocation, locate
from stateproc.storage.ranges import read_ranges
from stateproc.storage.sources import ByteSource, FileSource, InlineSource, open_handle

__all__ = [
    "ByteSource",
    "Entry",
    "FileSource",
    "InlineSource",
    "SnapshotLocation",
    "list_directory",
    "locate",
    "open_handle",
    "read_ranges",
]
