"""Measure the states of many files: small ones of one operator together, each read at once.

A job of thousands of subtasks has thousands of files of some hundred bytes for each operator. What opening, reading and
scanning cost is then what each call costs, so that calls are saved: one read per file instead of one for each of its
parts, and one scan for all files that have the same header.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stateproc.errors import SnapshotError
from stateproc.readers.keyed_file import KeyedFile, SizeRequest, StateSizes
from stateproc.storage.ranges import is_remote

SMALL_FILE = 64 << 10
_BATCH_BYTES, _BATCH_FILES = 4 << 20, 512
_REQUESTS_AT_ONCE = 16


@dataclass(frozen=True)
class MeasuredFiles:
    """The sizes of some files, which have one header.

    Attributes:
        files: The files; one, if they could not be measured.
        layout: The layout of their entries; None where it is not known.
        sizes: The sum of their sizes, or why they cannot be measured.
    """

    files: Sequence[KeyedFile]
    layout: str | None
    sizes: StateSizes | SnapshotError


def batches_of_files(files: Sequence[KeyedFile]) -> list[list[KeyedFile]]:
    """Divide files into batches of consecutive small ones; all others are alone."""
    batches: list[list[KeyedFile]] = []
    free = 0
    for file in files:
        size = _small_size(file)
        if size is None or size > free or len(batches[-1]) == _BATCH_FILES:
            batches.append([])
            free = 0 if size is None else _BATCH_BYTES
        batches[-1].append(file)
        free -= size or 0
    return batches


def _small_size(file: KeyedFile) -> int | None:
    """Return the bytes of a small file of key groups; None for any other file."""
    try:
        size = file.source.size if file.ranges else None
    except SnapshotError:
        return None  # measuring the file reports it
    return size if size is not None and size <= SMALL_FILE else None


def measure_files(files: Sequence[KeyedFile], request: SizeRequest) -> Iterator[MeasuredFiles]:
    """Measure a batch of ``batches_of_files``, in the order of the files except that equal headers go together."""
    if len(files) == 1:
        yield _measured(files[0], request)
        return
    _load(files)
    try:
        alike: dict[tuple[object, int], list[KeyedFile]] = {}
        for file in files:
            try:
                alike.setdefault((file.state_layout, id(file.header)), []).append(file)
            except SnapshotError:
                alike[file, 0] = [file]
        for together in alike.values():
            yield from _measured_together(together, request)
    finally:
        for file in files:
            file.release()


def _load(files: Sequence[KeyedFile]) -> None:
    """Hold the bytes of files in memory; what cannot be read is reported by whoever reads it again."""
    if not is_remote(files[0].source):
        for file in files:
            file.load(SMALL_FILE)
        return
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as pool:
        for _ in pool.map(lambda file: file.load(SMALL_FILE), files):
            pass


def _measured_together(files: list[KeyedFile], request: SizeRequest) -> Iterator[MeasuredFiles]:
    if len(files) > 1:
        layout = files[0].state_layout
        try:
            sizes = layout.sizes_together(files, request)
        except SnapshotError:
            sizes = None  # found below, with the file that it is in
        if sizes is not None:
            yield MeasuredFiles(files, layout.name, sizes)
            return
    for file in files:
        yield _measured(file, request)


def _measured(file: KeyedFile, request: SizeRequest) -> MeasuredFiles:
    layout = None
    try:
        layout = file.layout
        return MeasuredFiles([file], layout, file.sizes(request))
    except SnapshotError as error:
        return MeasuredFiles([file], layout, error)
