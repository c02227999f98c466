"""Measure whether time is linear and memory flat, from 5 to 100 million keys: python -m benchmarks.scale [KEYS …].

One value state, Long → POJO of a String of 20, a long and a double, canonical, two subtasks; each step is a process of
the local engine. 100 million keys take 6 GB, and as much for each of `update`, `rescale` and `export`, one after
another, below ``--folder``. Each figure is printed when it is measured, at the end a table.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import stateproc
from benchmarks.__main__ import ROOT
from benchmarks.many_files import measured
from stateproc import OperatorBootstrap, SavepointWriter

KEYS = (5_000_000, 100_000_000)
_BATCH_ROWS = 1 << 16
_UID, _STATE = "big", "customers"
_TYPE = "Pojo big.Customer {name: String, total: Double, visits: Long}"


def rows(keys: int) -> pa.RecordBatchReader:
    """Return the rows, made as they are read."""
    value = pa.struct([("name", pa.string()), ("total", pa.float64()), ("visits", pa.int64())])
    schema = pa.schema([("key", pa.int64()), ("value", value)])

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, keys, _BATCH_ROWS):
            numbers = pa.array(range(start, min(keys, start + _BATCH_ROWS)), pa.int64())
            text = pc.utf8_lpad(numbers.cast(pa.string()), 11, "0")
            name = pc.binary_join_element_wise("customer-", text, "")
            values = pa.StructArray.from_arrays([name, numbers.cast(pa.float64()), numbers], fields=list(value))
            yield pa.RecordBatch.from_arrays([numbers, values], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def bootstrap(keys: int, folder: Path) -> None:
    """Write the savepoint."""
    state = OperatorBootstrap().value_state(_STATE, rows(keys), type=stateproc.types.parse(_TYPE))
    SavepointWriter.new_savepoint(None).with_operator(_UID, state).with_parallelism(_UID, 2).write(folder / "first")


def read(keys: int, folder: Path) -> None:
    """Read all columns, batch by batch."""
    state = stateproc.open(str(folder / "first"), uids=[_UID]).state(_UID, _STATE)
    assert sum(batch.num_rows for batch in state.batches()) == keys


def feed(keys: int, folder: Path) -> None:
    """Count the changes between the savepoint and the updated one."""
    (counts,) = stateproc.changes(str(folder / "first"), str(folder / "updated"), _UID).counts()
    assert (counts.updated, counts.inserted, counts.deleted) == (keys // 100, 0, 0)


def diff(keys: int, folder: Path) -> None:
    """Compare the savepoint with the updated one."""
    counts = stateproc.open(str(folder / "first")).diff(stateproc.open(str(folder / "updated"))).counts
    assert counts.left == keys and counts.changed == keys // 100


_STEPS = {"bootstrap": bootstrap, "read": read, "diff": diff, "feed": feed}
"""Steps without a command."""


def steps(folder: Path) -> dict[str, list[str]]:
    """Return the commands, in their order; the folders that they write are removed when they are no longer read."""
    first, updated = str(folder / "first"), str(folder / "updated")
    table = f'"{_UID}"."{_STATE}"'
    update = ["--uid", _UID, "--state", _STATE, "--set", "value.visits = -1", "--where", "key % 100 = 0"]
    return {
        "sql": ["sql", first, f"SELECT sum(value.visits) FROM {table}", "--uids", _UID],
        "verify": ["verify", first],
        "export": ["export", first, "--uids", _UID, "--uid", _UID, "-o", str(folder / "export")],
        "rescale": ["rescale", first, str(folder / "rescaled"), "--max-parallelism", "1024"],
        "update 1 %": ["update", first, updated, "--uids", _UID, *update],
    }


def measure(keys: int, folder: Path) -> dict[str, dict[str, float]]:
    """Run all steps; return seconds, megabytes and million keys per second of each."""
    found = {}
    for name in ("bootstrap", "read"):
        found[name] = _own(keys, folder, name)
        _say(keys, name, found)
    for name, command in steps(folder).items():
        figures = measured(command)
        found[name] = {"seconds": figures["seconds"], "MB": figures["megabytes"]}
        for gone in ("export", "rescaled"):
            shutil.rmtree(folder / gone, ignore_errors=True)
        _say(keys, name, found)
    for name in ("diff", "feed"):
        found[name] = _own(keys, folder, name)
        _say(keys, name, found)
    return found


def _own(keys: int, folder: Path, step: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scale", "--step", step, "--folder", str(folder), str(keys)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout))


def _say(keys: int, name: str, found: dict[str, dict[str, Any]]) -> None:
    item = found[name]
    print(f"{keys:>12,} {name:<12} {item['seconds']:>8.1f} s {item['MB']:>6.0f} MB", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keys", type=int, nargs="*")
    parser.add_argument("--folder", type=Path, help="where there is space")
    parser.add_argument("--step", choices=_STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        begin = time.perf_counter()
        _STEPS[given.step](given.keys[0], given.folder)
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": time.perf_counter() - begin, "MB": used}))
        return
    sizes = given.keys or KEYS
    found = {}
    for keys in sizes:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            found[keys] = measure(keys, Path(folder))
    print("| | " + " | ".join(f"{keys:,} keys, M keys/s; MB" for keys in sizes) + " |")
    for name in found[sizes[0]]:
        cells = [f"{keys / of[name]['seconds'] / 1e6:.2f}; {of[name]['MB']:.0f}" for keys, of in found.items()]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
