"""Remote files are read ahead: each byte is requested once, in order, with few requests that are bounded in number."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stateproc.errors import AccessDenied, CorruptSnapshot
from stateproc.storage import FileSource, InlineSource
from stateproc.storage.ranges import ReadAhead, reading_ahead
from stateproc.storage.store import StorePath
from tests.helpers.stores.counting_filesystem import Count, CountedFileSystem, counted, counting
from tests.helpers.sweeps import sampled

MB = 1 << 20
SIZE = 40 * MB + 12_345


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "file"
    path.write_bytes(np.random.default_rng(7).bytes(SIZE))
    return path


def remote(file: Path) -> FileSource:
    return FileSource(StorePath(counted(file)), SIZE)


def threads() -> int:
    return sum(thread.name.startswith("stateproc-requests") for thread in threading.enumerate())


@pytest.mark.parametrize("step", [sampled(100_000), 3 * MB, 4 * MB, 9 * MB + 1, SIZE])
def test_each_byte_is_requested_once(file: Path, step: int) -> None:
    data = file.read_bytes()
    with counting() as count, reading_ahead(remote(file), [(0, SIZE)]) as source:
        for at in range(0, SIZE, step):
            assert source.read(at, min(step, SIZE - at)) == data[at : at + step]
    assert (count.bytes, len(count.requests)) == (SIZE, 11)
    assert len(count.lookups) == 1 and count.most_at_once <= 5
    assert threads() == 0


def test_the_end_of_one_read_may_be_the_beginning_of_the_next(file: Path) -> None:
    data, at, length = file.read_bytes(), 0, 3 * MB
    with counting() as count, ReadAhead(remote(file), [(0, SIZE)]) as source:
        while at < SIZE:
            target = bytearray(min(length, SIZE - at))
            source.read_into(at, memoryview(target))
            assert target == data[at : at + length]
            at += max(len(target) - 777, 777)
    assert (count.bytes, len(count.requests)) == (SIZE, 11)


def test_who_reads_little_requests_little(file: Path) -> None:
    with counting() as count, ReadAhead(remote(file), [(5, SIZE)]) as source:
        assert source.read(5, 10) == file.read_bytes()[5:15]
    # The second request may be given up before it is made.
    assert count.requests in ([("file", 4 * MB)], [("file", 4 * MB)] * 2)
    with counting() as count, ReadAhead(remote(file), [(5, 1000)]) as source:
        source.read(5, 10)
        source.read(15, 985)
        assert count.requests == [("file", 995)]


def test_requests_are_concurrent_and_bounded(file: Path) -> None:
    with counting(together=2) as count, ReadAhead(remote(file), [(0, SIZE)]) as source:
        for at in range(0, 40 * MB, MB):
            source.read(at, MB)
    assert 2 <= count.most_at_once <= 5


def test_only_the_ranges_are_requested_and_close_ones_together(file: Path) -> None:
    ranges = [(0, 1000), (2000, 3000), (10 * MB, 10 * MB + 500), (30 * MB, 35 * MB)]
    data = file.read_bytes()
    with counting() as count, ReadAhead(remote(file), ranges) as source:
        for start, stop in ranges:
            assert source.read(start, stop - start) == data[start:stop]
    assert sorted(size for _, size in count.requests) == [500, 3000, MB, 4 * MB]


def test_bytes_outside_of_the_ranges_and_before_the_last_read(file: Path) -> None:
    data = file.read_bytes()
    with ReadAhead(remote(file), [(MB, 20 * MB)]) as source:
        for start, length in [(0, 10), (2 * MB, 9 * MB), (MB, 10), (19 * MB, 2 * MB), (39 * MB, MB)]:
            assert source.read(start, length) == data[start : start + length]
        with pytest.raises(CorruptSnapshot, match="are outside of"):
            source.read(SIZE - 1, 2)


def test_an_error_of_a_request_is_raised_to_the_reader(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: Any, **options: Any) -> bytes:
        raise PermissionError("no")

    monkeypatch.setattr(CountedFileSystem, "cat_file", refused)
    with ReadAhead(remote(file), [(0, SIZE)]) as source, pytest.raises(AccessDenied, match="access denied"):
        source.read(0, 10)
    assert threads() == 0


def test_local_files_and_bytes_in_memory_are_read_as_they_are(file: Path) -> None:
    for source in (FileSource(StorePath(str(file)), SIZE), InlineSource("inline", b"abc")):
        with reading_ahead(source, [(0, 3)]) as found:
            assert found is source


def test_large_reads_are_several_requests_at_a_time(file: Path) -> None:
    data = file.read_bytes()
    with counting(together=2) as count:
        assert remote(file).read(1, 30 * MB) == data[1 : 30 * MB + 1]
    assert isinstance(count, Count)
    assert 2 <= count.most_at_once <= 4 and len(count.requests) == 8
