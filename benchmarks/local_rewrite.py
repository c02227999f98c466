"""Measure the local engine: large snapshots rewritten in one process, without Spark.

    python -m benchmarks.local_rewrite              # 5 million keys; a minute
    python -m benchmarks.local_rewrite --rounds 5   # the fastest of five rounds

Each write is a process of its own: seconds of `write`, seconds with start-up, CPU seconds, peak megabytes, and keys per
second of `write`. `copy` is compared with a copy of the directory by `shutil` that is flushed to disk, as the files of
a write are.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.__main__ import CACHE, snapshot
from stateproc import OperatorBootstrap, SavepointWriter

_BATCH_ROWS = 1 << 16
_NOW, _TTL = 1_700_000_000_000, timedelta(days=1)
CHANGES: dict[str, Callable[[SavepointWriter], object]] = {
    "copy": lambda writer: writer,
    "rescale 128 to 1024": lambda writer: writer.with_max_parallelism(1024),
    "canonical to native-rocksdb": lambda writer: writer.with_format("native-rocksdb"),
    "canonical to native-hashmap": lambda writer: writer.with_format("native-hashmap"),
    "delete half": lambda writer: writer.delete_rows("op", "text", "key % 2 = 0"),
    "delete by value": lambda writer: writer.delete_rows("op", "text", "value < 'customer-00000001000'"),
    "update half": lambda writer: writer.update_rows("op", "text", "value = upper(value)", "key % 2 = 0"),
    "purge half": lambda writer: writer.purge_expired("op", "text", _TTL, _NOW),
}


def rows(keys: int) -> pa.RecordBatchReader:
    """Return rows with a text of 20 bytes, of which every other has expired."""
    schema = pa.schema([("key", pa.int64()), ("value", pa.string()), ("last_access", pa.int64())])

    def batches() -> Any:
        for start in range(0, keys, _BATCH_ROWS):
            numbers = np.arange(start, min(keys, start + _BATCH_ROWS))
            text = pa.array([f"customer-{number:011d}" for number in numbers.tolist()])
            times = np.where(numbers % 2, _NOW, _NOW - 2 * _TTL // timedelta(milliseconds=1))
            yield pa.RecordBatch.from_arrays([pa.array(numbers), text, pa.array(times)], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def bootstrapped(keys: int) -> Path:
    """Return a savepoint of one state with a time to live, written if it is not cached."""
    path = CACHE / f"local-ttl-{keys}"
    if not (path / "_metadata").exists():
        state = OperatorBootstrap().value_state("text", rows(keys), ttl=True, last_access="last_access")
        SavepointWriter.new_savepoint(None).with_operator("op", state).with_parallelism("op", 2).write(path)
    return path


def write(change: str, source: str, target: str) -> dict[str, Any]:
    """Write once, in this process."""
    begin = time.perf_counter()
    writer = SavepointWriter.from_existing_savepoint(None, source)
    CHANGES[change](writer)
    report = writer.write(target).report
    seconds = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds of write": round(report.seconds["total"], 2),
        "seconds": round(seconds, 2),
        "CPU seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak MB": used.ru_maxrss >> 10,
        "entries": report.entries,
        "MB": round(report.bytes / 1e6),
    }


def plain_copy(source: str, target: str) -> float:
    """Return the seconds of a copy of the directory and a flush of its files."""
    begin = time.perf_counter()
    shutil.copytree(source, target)
    for path in Path(target).iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return time.perf_counter() - begin


def measured(change: str, source: Path, rounds: int, keys: int) -> dict[str, Any]:
    """Write in processes of their own; the fastest round."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            command = [sys.executable, "-m", "benchmarks.local_rewrite", "--one", change, str(source), f"{folder}/s"]
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            figures = json.loads(out)
            if change == "copy":
                figures["seconds of shutil"] = round(plain_copy(str(source), f"{folder}/copy"), 2)
            else:
                figures["M keys per second"] = round(keys / figures["seconds of write"] / 1e6, 2)
            found.append(figures)
    return min(found, key=lambda item: float(item["seconds of write"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=3, metavar=("CHANGE", "SOURCE", "TARGET"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(write(*arguments.one)))
        return
    figures = {}
    for change in CHANGES:
        source = bootstrapped(arguments.keys) if change == "purge half" else snapshot(arguments.keys, "canonical")
        figures[change] = measured(change, source, arguments.rounds, arguments.keys)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
