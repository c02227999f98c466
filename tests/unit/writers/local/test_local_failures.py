"""Writes of the local engine that fail, are interrupted or killed leave no snapshot, no files and no threads."""

from __future__ import annotations

import _thread
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import stateproc
from stateproc import SavepointWriter
from stateproc.errors import CorruptSnapshot, MissingFile, WriteFailed
from stateproc.storage.writing import OutputFile
from stateproc.writers.local import engine
from stateproc.writers.local import engine as spilled_operator
from stateproc.writers.local.engine import LocalEngine
from stateproc.writers.rewrite.raw_copy import CarriedSplit
from tests.helpers.fixtures import FIXTURES, differences, fixtures_in
from tests.helpers.kernel_library import require_library
from tests.helpers.sweeps import sampled

INCREMENTAL, CANONICAL = (
    fixtures_in(FIXTURES / "1.20" / name)[-1] for name in ("kitchen-rocksdb-incremental", "kitchen-hashmap-canonical")
)
REWRITES = ("target by target", "spilled")


@pytest.fixture(autouse=True)
def _several_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(engine, "available_cores", lambda: 4)
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def rewrite(source: Any, rewrite: str) -> SavepointWriter:
    writer = SavepointWriter.from_existing_savepoint(None, source)
    if rewrite == REWRITES[0]:
        return writer.with_format("canonical").with_compression()
    return writer.with_max_parallelism(1024)


@pytest.mark.parametrize("how", REWRITES)
def test_a_full_disk_leaves_no_files(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = [0]

    def write(file: OutputFile, data: bytes | memoryview) -> None:
        written[0] += len(data)
        if written[0] > 10_000:
            raise WriteFailed("cannot be written") from OSError(errno.ENOSPC, "No space left on device")
        inner(file, data)

    inner = OutputFile.write
    monkeypatch.setattr(OutputFile, "write", write)
    with pytest.raises(WriteFailed, match="cannot be written"):
        rewrite(INCREMENTAL.snapshot, how).write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_full_temporary_directory_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(WriteFailed, match="temporary file"):
        rewrite(CANONICAL.snapshot, "spilled").write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_missing_temporary_space_is_an_error_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    spilled = rewrite(CANONICAL.snapshot, "spilled")
    needed = spilled.plan().totals["temporary_bytes"]
    assert needed > 1000
    with pytest.raises(WriteFailed, match=r"about .* of temporary space, and .* has 1000 B") as caught:
        spilled.write(tmp_path / "s")
    assert "TMPDIR" in (caught.value.advice or "") and not (tmp_path / "s").exists()
    # What needs none is written.
    rewrite(CANONICAL.snapshot, REWRITES[0]).write(tmp_path / "s")


@pytest.mark.parametrize("how", REWRITES)
@pytest.mark.parametrize("damage", ["cut off", "missing"])
def test_a_damaged_source_leaves_no_files(tmp_path: Path, how: str, damage: str) -> None:
    source = Path(shutil.copytree(CANONICAL.snapshot, tmp_path / "source"))
    largest = max((path for path in source.iterdir() if path.name != "_metadata"), key=lambda path: path.stat().st_size)
    if damage == "missing":
        largest.unlink()
    else:
        os.truncate(largest, largest.stat().st_size // 2)
    with pytest.raises(MissingFile if damage == "missing" else CorruptSnapshot) as raised:
        rewrite(source, how).write(tmp_path / "s")
    assert largest.name in str(raised.value)
    assert not (tmp_path / "s").exists()


@pytest.fixture
def _interruptible() -> Iterator[None]:
    """Python handles interrupts, which processes that a shell starts in the background ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
@pytest.mark.parametrize("how", REWRITES)
def test_an_interrupt_ends_the_write(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = engine._read if how == REWRITES[0] else spilled_operator.SpillBuffer.add
    reached = threading.Event()

    def slow(*arguments: Any) -> Any:
        if threading.current_thread() is not threading.main_thread() and not reached.is_set():
            reached.set()
            _thread.interrupt_main()
        time.sleep(0.01)
        return inner(*arguments)

    if how == REWRITES[0]:
        monkeypatch.setattr(engine, "_read", slow)
    else:
        monkeypatch.setattr(spilled_operator.SpillBuffer, "add", slow)
    with pytest.raises(KeyboardInterrupt):
        rewrite(INCREMENTAL.snapshot, how).write(tmp_path / "s")
    assert reached.is_set() and not (tmp_path / "s").exists()


def test_an_error_in_one_thread_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, read = CarriedSplit.read, [0]

    def failing(split: CarriedSplit) -> Iterator[pa.RecordBatch]:
        read[0] += 1
        if read[0] == 3:
            raise CorruptSnapshot("the third split is damaged")
        return inner(split)

    monkeypatch.setattr(CarriedSplit, "read", failing)
    with pytest.raises(CorruptSnapshot, match="third split"):
        rewrite(INCREMENTAL.snapshot, "spilled").write(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_streams_out_of_order_are_sorted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reader returns key groups in another order; a target is then written from a spill buffer."""
    inner, calls = engine._read, [0]

    def reversed_read(splits: Any, *arguments: Any) -> Iterator[pa.RecordBatch]:
        calls[0] += 1
        return iter(list(inner(splits, *arguments))[::-1])

    monkeypatch.setattr(engine, "_read", reversed_read)
    path = rewrite(INCREMENTAL.snapshot, REWRITES[0]).write(tmp_path / "s")
    uids = {line["uid"] for line in INCREMENTAL.expected() if line["uid"]}
    assert calls[0] and differences(INCREMENTAL, stateproc.open(path, uids=uids)) == []


_KILLED = """
import os, sys
from stateproc import SavepointWriter
from stateproc.storage.writing import OutputFile
written, inner, most = [0], OutputFile.write, int(sys.argv[3])
def write(file, data):
    written[0] += len(data)
    if written[0] > most:
        os.kill(os.getpid(), 9)
    inner(file, data)
OutputFile.write = write
SavepointWriter.from_existing_savepoint(None, sys.argv[1]).with_format("canonical").write(sys.argv[2], sys.argv[4])
"""


@pytest.mark.processes
@pytest.mark.parametrize("most", [sampled(0), 10_000])
def test_a_killed_write_leaves_no_snapshot_and_the_next_write_succeeds(tmp_path: Path, most: int) -> None:
    target = tmp_path / "s"
    arguments = [sys.executable, "-c", _KILLED, INCREMENTAL.snapshot, str(target)]
    assert subprocess.run([*arguments, str(most), "error"]).returncode == -9
    assert not (target / "_metadata").exists()
    rewrite(INCREMENTAL.snapshot, REWRITES[0]).write(target)
    before = sorted(os.listdir(target))
    assert not [name for name in before if name.startswith(".")]
    assert subprocess.run([*arguments, str(most), "overwrite"]).returncode == -9
    assert set(before) <= set(os.listdir(target))  # the old snapshot is still whole
    uids = {line["uid"] for line in INCREMENTAL.expected() if line["uid"]}
    assert differences(INCREMENTAL, stateproc.open(target, uids=uids)) == []


_IMPORTS = """
import sys, subprocess
from stateproc import SavepointWriter
subprocess.Popen = None
uid, state = "kitchen-long", "counter"
for change in ("copy", "native-rocksdb", "native-hashmap", "canonical", "rescale", "delete", "update", "evolve"):
    writer = SavepointWriter.from_existing_savepoint(None, sys.argv[1], {"uids": uid})
    if change == "rescale":
        writer.with_max_parallelism(300)
    elif change == "delete":
        writer.delete_rows(uid, state, "key_group < 64 OR value > 2")
    elif change == "update":
        writer.update_rows(uid, state, "value = value + 1", "value > 2")
    elif change == "evolve":
        writer.evolve_type(uid, state, "Double", assignments="value = value / 2.0")
    elif change != "copy":
        writer.with_format(change)
    writer.write(sys.argv[2] + change)
print([name for name in ("pandas", "pyspark", "py4j", "numba") if name in sys.modules])
"""


@pytest.mark.processes
def test_neither_spark_nor_pandas_is_imported(tmp_path: Path) -> None:
    code = [sys.executable, "-c", _IMPORTS, INCREMENTAL.snapshot, str(tmp_path / "s")]
    answer = subprocess.run(code, capture_output=True, text=True, env=require_library())
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == "[]"


def test_the_number_of_threads_is_that_of_the_cores() -> None:
    assert LocalEngine().default_parallelism == 4 and LocalEngine(3).default_parallelism == 3


@pytest.mark.parametrize(
    ("megabytes", "threads", "held"),
    [(1, 2, 8), (300, 2, 8), (1_000, 2, 15), (100_000, 2, 24), (100_000, 3, 16), (None, 2, 24), (None, 16, 8)],
)
def test_buffered_bytes_are_bounded(megabytes: int | None, threads: int, held: int) -> None:
    stored = None if megabytes is None else megabytes << 20
    assert spilled_operator.held_bytes(stored, threads) >> 20 == held
