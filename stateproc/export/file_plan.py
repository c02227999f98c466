"""Plan the files of a state: consecutive splits, with about the same number of stored bytes in each file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from stateproc.export.file_formats import EXPORT_FORMATS, FileTask
from stateproc.export.manifest import ExportSettings
from stateproc.keygroups.ranges import key_group_range
from stateproc.model.rocksdb_tables import TableSplit
from stateproc.model.state import State
from stateproc.readers.splits import Split

_SMALLEST_FILE, _LARGEST_FILE = 16 << 20, 256 << 20
_FILES_PER_THREAD = 4
PARTITION_COLUMN = "key_groups"
"""The column of hive-style folders, such as ``key_groups=0-31``."""


def split_bytes(state: State, threads: int) -> int:
    """Return the stored bytes of a file, with which threads have files of about equal size.

    Raises:
        SnapshotError: The sizes of the state's files cannot be determined.
    """
    stored = state.stored_bytes or 0
    size = min(max(stored // (_FILES_PER_THREAD * threads), _SMALLEST_FILE), _LARGEST_FILE)
    # A state of which each split reads everything (a changelog) asks for more, whatever the limit.
    return size if state.parallel_split_bytes(1, size) == size else state.parallel_split_bytes(threads, size)


def file_tasks(state: State, folder: str, size: int, settings: ExportSettings) -> list[FileTask]:
    """Plan the files of a state. The same arguments give the same files.

    Raises:
        SnapshotError: The state cannot be read.
    """
    schema = state.schema(flatten=settings.flatten)
    suffix = EXPORT_FORMATS[settings.format].suffix_with(settings.compression)
    tasks: list[FileTask] = []
    for subfolder, key_groups in _partitions(state, folder, settings):
        splits = state.splits(flatten=settings.flatten, key_groups=key_groups, split_bytes=size)
        for part in _grouped(splits, size):
            bounds = _bounds(part)
            groups = "" if bounds is None else f"-key-groups-{bounds[0]}-{bounds[1]}"
            tasks.append(FileTask(subfolder, f"part-{len(tasks):05}{groups}{suffix}", schema, part, bounds))
    # A state without rows has a file, too, which contains its columns.
    return tasks or [FileTask(folder, f"part-00000{suffix}", schema, ())]


def table_task(table: pa.Table, folder: str, settings: ExportSettings) -> FileTask:
    """Plan the file of a small table."""
    suffix = EXPORT_FORMATS[settings.format].suffix_with(settings.compression)
    return FileTask(folder, f"part-00000{suffix}", table.schema, (TableSplit(table.to_batches()),))


def partition_of(task_folder: str, folder: str) -> str | None:
    """Return the value of the partition column of a file in ``task_folder``; None outside of hive-style folders."""
    inner = task_folder.removeprefix(folder).strip("/")
    return inner.partition("=")[2] or None


def _partitions(state: State, folder: str, settings: ExportSettings) -> Iterator[tuple[str, Iterable[int] | None]]:
    if settings.key_group_ranges is None or not state.is_keyed:
        yield folder, None
        return
    total = state.operator.max_parallelism
    number = min(settings.key_group_ranges, total)
    for index in range(number):
        groups = key_group_range(total, number, index)
        yield f"{folder}/{PARTITION_COLUMN}={groups[0]}-{groups[-1]}", groups


def _grouped(splits: Sequence[Split], size: int) -> Iterator[tuple[Split, ...]]:
    """Group consecutive splits: those of a thousand subtasks are not a thousand files."""
    group: list[Split] = []
    stored = 0
    for split in splits:
        if group and stored + split.bytes > size:
            yield tuple(group)
            group, stored = [], 0
        group.append(split)
        stored += split.bytes
    if group:
        yield tuple(group)


def _bounds(splits: Iterable[Split]) -> tuple[int, int] | None:
    groups = [group for split in splits for group in (split.key_groups[:1] + split.key_groups[-1:])]
    return (min(groups), max(groups)) if groups else None
