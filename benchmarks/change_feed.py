"""Measure change feeds of incremental RocksDB checkpoints beside reading both checkpoints whole.

python -m benchmarks.change_feed                     # 5 million keys; about 4 GB of disk, some minutes
python -m benchmarks.change_feed --keys 100000

One database with tables as Flink makes them. Of some share of the keys, next to each other in key order or spread over
all of it, other values are written; the next checkpoint is taken before or after a compaction of everything. Each
comparison runs some times in a process of its own, as those of a stream do: the fastest counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from stateproc.flink_versions import DEFAULT
from stateproc.keygroups.hashes import hash_codes
from stateproc.keygroups.key_hash import KeyHash
from stateproc.keygroups.operator_ids import operator_id
from stateproc.keygroups.ranges import key_group_of_hash
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.snapshot import OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import ByteStreamHandle, FileHandle
from stateproc.metadata.writer import write_metadata
from stateproc.readers.state_descriptor import StateKind
from stateproc.serializers.java.scalars import LONG, SCALARS, Scalar
from stateproc.writers.bootstrap.state_registration import RegisteredState, keyed_part

STATE, UID = "profile", "users"
_STRING = Scalar(*next(row for row in SCALARS if row[0] == "String"))
MAX_PARALLELISM = 128
VALUE_BYTES = 100
SHARES = (0.001, 0.01, 0.1)
_ROUNDS = 3


class Users:
    """The keys of the database in its order, and values for them."""

    def __init__(self, keys: int) -> None:
        numbers = np.arange(keys, dtype=np.int64)
        groups = key_group_of_hash(hash_codes(pa.array(numbers), KeyHash("long")), MAX_PARALLELISM)
        order = np.lexsort((numbers, groups))
        # Key group, key, the one byte of the VoidNamespace.
        table = np.zeros((keys, 10), dtype=np.uint8)
        table[:, 0] = groups[order]
        table[:, 1:9] = numbers[order].astype(">i8").view(np.uint8).reshape(-1, 8)
        self.keys = table.tobytes()
        self.count = keys

    def write(self, database: Any, chosen: Iterable[int], seed: int) -> None:
        """Put new values of some keys, by their position."""
        from rocksdict import WriteBatch

        family, random = database.get_column_family_handle(STATE), np.random.default_rng(seed)
        positions = np.asarray(chosen)
        for first in range(0, len(positions), 100_000):
            batch = WriteBatch(raw_mode=True)
            some = positions[first : first + 100_000].tolist()
            # Length and characters of a string: random hexadecimal digits.
            text = random.integers(0, 16, len(some) * VALUE_BYTES, dtype=np.uint8)
            data = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)[text].tobytes()
            for row, position in enumerate(some):
                value = bytes([VALUE_BYTES + 1]) + data[row * VALUE_BYTES : (row + 1) * VALUE_BYTES]
                batch.put(self.keys[10 * position : 10 * position + 10], value, family)
            database.write(batch)


def opened(directory: Path) -> Any:
    """Open a database with the options that Flink sets."""
    from rocksdict import BlockBasedOptions, DBCompressionType, Options, Rdict

    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_disable_auto_compactions(True)
    options.set_compression_type(DBCompressionType.snappy())
    options.set_block_based_table_factory(BlockBasedOptions())
    options.set_target_file_size_base(64 << 20)
    options.set_write_buffer_size(64 << 20)
    return Rdict(str(directory), options, column_families={STATE: options})


def checkpoint(database: Any, target: Path, number: int, base: Path | None = None) -> Path:
    """Take a checkpoint; it shares the tables that the checkpoint ``base`` has."""
    from rocksdict import Checkpoint

    target.mkdir(parents=True)
    Checkpoint(database).create_checkpoint(str(target / "db"))
    shared, private = [], []
    for path in sorted((target / "db").iterdir()):
        earlier = base / "db" / path.name if base is not None else path
        is_shared = path.suffix == ".sst" and earlier.exists() and earlier.samefile(path)
        found = earlier if is_shared else path
        handle = FileHandle(str(found.resolve()), path.stat().st_size)
        (shared if path.suffix == ".sst" else private).append((path.name, handle))
    header = keyed_part(LONG, [RegisteredState(STATE, StateKind.VALUE, _STRING)], DEFAULT)
    meta = ByteStreamHandle("meta", header.encoded(compressed=False))
    kept = [item for item in private if item[0].startswith(("CURRENT", "MANIFEST-", "OPTIONS-"))]
    database_handle = IncrementalHandle(
        11, number, "00000000-0000-0000-0000-000000000000", 0, MAX_PARALLELISM, 0, meta, tuple(shared), tuple(kept),
        "00000000-0000-0000-0000-000000000001",
    )  # fmt: skip
    operator = OperatorEntry(
        operator_id(UID), 1, MAX_PARALLELISM, subtasks=(SubtaskState(0, managed_keyed=database_handle),)
    )
    metadata = SnapshotMetadata(DEFAULT.metadata_version, number, (), (operator,))
    (target / "_metadata").write_bytes(write_metadata(metadata, DEFAULT.metadata_version))
    return target


def compare(left: str, right: str, count_all: bool) -> dict[str, Any]:
    """Read the changes in this process; return what it took."""
    import stateproc
    from stateproc.diff.state_changes import StateComparison
    from stateproc.storage import sources

    read = 0

    def counting(name: str) -> None:
        original = getattr(sources, name)

        def counted(*arguments: Any) -> Any:
            nonlocal read
            found = original(*arguments)
            read += found if isinstance(found, int) else len(found)
            return found

        setattr(sources, name, counted)

    for name in ("read_range", "read_into", "read_parts_into"):
        counting(name)
    seconds, cpu_seconds = [], []
    for _ in range(_ROUNDS):
        read, begin, cpu = 0, time.perf_counter(), time.process_time()
        states = [stateproc.open(path, uids=[UID]).state(UID, STATE) for path in (left, right)]
        comparison = StateComparison(*states, count_all=count_all)
        changed = sum(found.counts.changed for found in comparison.changes(comparison.units()))
        seconds.append(time.perf_counter() - begin)
        cpu_seconds.append(time.process_time() - cpu)
    peak = next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return {
        "changed": changed,
        "seconds": round(min(seconds), 3),
        "CPU seconds": round(min(cpu_seconds), 3),
        "MB read": round(read / 1e6, 2),
        "peak, MB": int(peak) // 1024,
    }


def measured(left: Path, right: Path, *, count_all: bool) -> dict[str, Any]:
    """Compare several times in a new process, as a stream does; return the fastest."""
    command = [sys.executable, "-m", "benchmarks.change_feed", "--compare", str(left), str(right), str(int(count_all))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def positions(keys: int, share: float, spread: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return which keys change."""
    count = max(int(keys * share), 1)
    if not spread:
        return np.arange(keys // 3, keys // 3 + count)
    return np.sort(np.random.default_rng(7).choice(keys, count, replace=False))


def run(keys: int, directory: Path) -> Iterable[dict[str, Any]]:
    """Make the checkpoints and measure, case after case."""
    users = Users(keys)
    database = opened(directory / "base")
    users.write(database, range(keys), 0)
    family = database.get_column_family(STATE)
    family.flush()
    family.compact_range(None, None)
    earlier = checkpoint(database, directory / "chk-1", 1)
    database.close()
    for share in SHARES:
        for spread in (False, True):
            work = directory / f"case-{share}-{spread}"
            subprocess.run(["cp", "-rl", str(earlier / "db"), str(work)], check=True)
            for path in work.iterdir():
                # RocksDB appends to these; links would change the earlier checkpoint.
                if path.suffix != ".sst":
                    data = path.read_bytes()
                    path.unlink()
                    path.write_bytes(data)
            database = opened(work)
            users.write(database, positions(keys, share, spread), 1)
            family = database.get_column_family(STATE)
            family.flush()
            for compacted in (False, True):
                if compacted:
                    family.compact_range(None, None)
                later = checkpoint(database, directory / f"chk-2-{share}-{spread}-{compacted}", 2, earlier)
                cheap, whole = (measured(earlier, later, count_all=flag) for flag in (False, True))
                assert cheap["changed"] == whole["changed"]
                yield {
                    "share": share,
                    "keys": "spread" if spread else "clustered",
                    "compacted": compacted,
                    "feed": cheap,
                    "whole": whole,
                    "bytes, %": round(100 * cheap["MB read"] / whole["MB read"], 2),
                    "times faster": round(whole["seconds"] / cheap["seconds"], 1),
                    "times less CPU": round(whole["CPU seconds"] / cheap["CPU seconds"], 1),
                }
            database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, help="where the checkpoints are made; default a temporary directory")
    parser.add_argument("--compare", nargs=3, metavar=("LEFT", "RIGHT", "COUNT_ALL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compare:
        left, right, count_all = arguments.compare
        print(json.dumps(compare(left, right, count_all == "1")))
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as directory:
        for found in run(arguments.keys, Path(directory)):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
