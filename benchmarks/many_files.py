"""Make snapshots of many small state files, and measure what it costs to look at them: CPU time and peak memory.

    python -m benchmarks.many_files                        # 100,000 files: savepoint, heap and RocksDB checkpoint
    python -m benchmarks.many_files --files 1000 --check   # exit status 1 if a command exceeds its limit

Each command runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.flink_versions import DEFAULT
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.operator_ids import operator_id
from stateproc.keygroups.ranges import default_max_parallelism, key_group_of_hash, key_group_range
from stateproc.metadata.keyed_handles import IncrementalHandle, KeyedHandle
from stateproc.metadata.snapshot import OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import FileHandle, KeyGroupsHandle, RelativeFileHandle
from stateproc.metadata.writer import write_metadata
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers import LayoutContext
from stateproc.serializers.java.scalars import LONG
from stateproc.storage import SnapshotLocation
from stateproc.storage.store import StorePath
from stateproc.writers.bootstrap.state_registration import RegisteredState, keyed_part
from stateproc.writers.formats.entry_batches import RAW_ENTRIES
from stateproc.writers.formats.keyed_file import KeyedFileSpec
from stateproc.writers.formats.keyed_formats import KEYED_FORMATS, OutputFormat
from stateproc.writers.formats.rocksdb.options import TableOptions

STATE = "count"
FILES = 100_000
SHAPES = {
    "savepoint": (OutputFormat.CANONICAL, 50, 1),
    "heap": (OutputFormat.NATIVE_HASHMAP, 50, 1),
    "incremental": (OutputFormat.NATIVE_ROCKSDB, 10, 100),
}
"""Name → format, number of operators, state files per subtask (for RocksDB tables in ``shared``)."""
LIMITS = {"inspect": (10.0, 1000), "inspect --json": (10.0, 1000)}
"""Command → CPU seconds and megabytes that it may take at most with 100,000 files."""
_SMALL_TABLES = TableOptions(block_size=64, target_file_size=64, compression_per_level=("NO_COMPRESSION",))
_PROGRAM = """
import json, sys, time
requests = None
if sys.argv[1] == "s3":
    from benchmarks.s3_requests import S3Requests
    requests = S3Requests()
from stateproc.cli import main
status = main(sys.argv[2:])
# Not ru_maxrss, which begins with the memory of the process that started this one.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
figures = {"CPU seconds": round(time.process_time(), 2), "megabytes": round(int(peak) / 1024)}
print(json.dumps({**figures, **(requests.figures() if requests else {})}), file=sys.stderr)
sys.exit(status)
"""


class _File:
    """A new state file in the snapshot's directory; unlike those of real writers not forced to the disk."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / name
        self._file = self._path.open("wb")

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes | memoryview, /) -> object:
        return self._file.write(data)

    def close(self) -> RelativeFileHandle:
        self._file.close()
        return RelativeFileHandle(self._path.name, self._path.stat().st_size)


def make(directory: Path, shape: str, files: int = FILES) -> Path:
    """Write a snapshot of about ``files`` state files and return its directory.

    The subtasks of the first operator have files of their own, those of other operators have links to them under other
    names: opening them costs the same.
    """
    form, operators, per_subtask = SHAPES[shape]
    parallelism = max(files // (operators * per_subtask), 1)
    chk = directory / ("savepoint" if form is OutputFormat.CANONICAL else "chk-7")
    shared = directory / "shared"
    for path in (chk, shared):
        path.mkdir(parents=True)
    spec = KeyedFileSpec(
        header=keyed_part(LONG, [RegisteredState(STATE, StateKind.VALUE, LONG)], DEFAULT),
        key_groups=range(0),
        max_parallelism=default_max_parallelism(parallelism),
        new_file=lambda: _File(chk, "unused"),
        location=SnapshotLocation(StorePath(str(chk / "_metadata"))),
        release=DEFAULT,
        checkpoint_id=7,
        compressed=False,
        context=LayoutContext(),
        rocksdb=_SMALL_TABLES,
    )
    first = [_written(spec, form, chk, subtask, parallelism, per_subtask) for subtask in range(parallelism)]
    states = []
    for number in reversed(range(operators)):  # the first operator's files move to their place when all have links
        subtasks = tuple(
            SubtaskState(index, managed_keyed=_linked(handle, chk, shared, number))
            for index, handle in enumerate(first)
        )
        states.append(OperatorEntry(operator_id(uid_of(number)), parallelism, spec.max_parallelism, subtasks=subtasks))
    metadata = SnapshotMetadata(DEFAULT.metadata_version, 7, (), tuple(reversed(states)))
    (chk / "_metadata").write_bytes(write_metadata(metadata, DEFAULT.metadata_version))
    return chk


def uid_of(number: int) -> str:
    """Return the uid of an operator."""
    return f"operator-{number}"


def _written(
    spec: KeyedFileSpec, form: OutputFormat, chk: Path, subtask: int, parallelism: int, tables: int
) -> KeyedHandle:
    """Write the state of one subtask of the first operator: two entries for each table, at least one per key group."""
    key_groups = key_group_range(spec.max_parallelism, parallelism, subtask)
    numbers = iter(range(1 << 30))
    own = replace(spec, key_groups=key_groups, new_file=lambda: _File(chk, f"operator-0-{subtask}-{next(numbers)}"))
    with KEYED_FORMATS[form].open(own) as writer:
        writer.write(_entries(key_groups, spec.max_parallelism, tables))
        return writer.close()


def _entries(key_groups: range, max_parallelism: int, tables: int) -> pa.RecordBatch:
    keys, groups = _keys(max_parallelism)
    each = -(-2 * tables // len(key_groups))
    chosen = [np.sort(keys[groups == group][:each]) for group in key_groups]
    key = np.concatenate(chosen)
    encoded = key.astype(">i8").tobytes()
    columns = [
        np.repeat(np.asarray(key_groups, dtype=np.int32), [len(item) for item in chosen]),
        np.zeros(len(key), dtype=np.int32),
        # The key is followed by the one byte of its VoidNamespace.
        [encoded[8 * row : 8 * row + 8] + b"\0" for row in range(len(key))],
        [(int(value) * 10).to_bytes(8, "big") for value in key],
    ]
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, RAW_ENTRIES, strict=True)], schema=RAW_ENTRIES
    )


@cache
def _keys(max_parallelism: int) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and their key groups, as Flink assigns them."""
    keys = np.arange(300 * max_parallelism, dtype=np.int64)
    return keys, key_group_of_hash(hash_codes(pa.array(keys), KeyHash("long")), max_parallelism)


def _linked(handle: KeyedHandle, chk: Path, shared: Path, operator: int) -> KeyedHandle:
    """Return the handle with links to its files, under the names of another operator."""

    def renamed(stream: Any) -> RelativeFileHandle:
        name = str(stream.path).replace("operator-0-", f"operator-{operator}-")
        if operator:
            os.link(chk / stream.path, chk / name)
        return RelativeFileHandle(name, stream.size)

    if isinstance(handle, KeyGroupsHandle):
        return replace(handle, stream=renamed(handle.stream))
    assert isinstance(handle, IncrementalHandle)
    moved, private = [], []
    for name, stream in handle.private:
        if not name.endswith(".sst"):
            private.append((name, renamed(stream)))
            continue
        assert isinstance(stream, RelativeFileHandle)
        target = shared / stream.path.replace("operator-0-", f"operator-{operator}-")
        (os.link if operator else os.replace)(chk / stream.path, target)
        moved.append((name, FileHandle(str(target.resolve()), stream.size)))
    return replace(handle, meta=renamed(handle.meta), shared=tuple(moved), private=tuple(private))


def commands(path: Path) -> dict[str, list[str]]:
    """Return the commands that are measured, by name."""
    read = ["read", str(path), "--uid", uid_of(0), "--state", STATE, "--format", "jsonl"]
    return {
        "inspect": ["inspect", str(path)],
        "inspect --json": ["inspect", str(path), "--json"],
        "read --limit 10": [*read, "--limit", "10"],
        "read": read,
    }


def measured(command: list[str]) -> dict[str, float]:
    """Run a command of stateproc; return what it took.

    Returns:
        Seconds, CPU seconds, peak megabytes; with paths in S3 as arguments, requests and megabytes over the network.

    Raises:
        CalledProcessError: Its exit status is not 0.
    """
    kind = "s3" if any(item.startswith("s3:") for item in command) else "local"
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, kind, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr)
    seconds = round(time.perf_counter() - begin, 2)
    return {"seconds": seconds, **json.loads(done.stderr.splitlines()[-1])}


@contextmanager
def snapshot(shape: str, files: int, keep: Path | None) -> Iterator[Path]:
    """Return a snapshot of ``make``: from the directory ``keep`` if it is there, else removed in the end."""
    if keep is None:
        with tempfile.TemporaryDirectory() as directory:
            yield make(Path(directory), shape, files)
        return
    target = keep / f"{shape}-{files}"
    found = sorted(target.glob("*/_metadata"))
    yield found[0].parent if found else make(target, shape, files)


def run(files: int, keep: Path | None, measure: Callable[[list[str]], dict[str, float]] = measured) -> dict[str, Any]:
    """Measure all commands of all shapes."""
    figures: dict[str, Any] = {}
    for shape in SHAPES:
        with snapshot(shape, files, keep) as path:
            size = (path / "_metadata").stat().st_size
            of_commands = {name: measure(command) for name, command in commands(path).items()}
        figures[shape] = {"_metadata, MB": round(size / 1e6, 1), **of_commands}
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--keep", type=Path, help="keep the snapshots in this directory, and use those that are there")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    figures = run(arguments.files, arguments.keep)
    print(json.dumps(figures, indent=2))
    exceeded = any(
        found[command]["CPU seconds"] > seconds or found[command]["megabytes"] > megabytes
        for found in figures.values()
        for command, (seconds, megabytes) in LIMITS.items()
    )
    return int(exceeded and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
