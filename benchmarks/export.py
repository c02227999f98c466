"""Measure `export` to each format: rows per second, bytes per row, peak memory; and what `sql` reads for one key.

python -m benchmarks.export SNAPSHOT [--threads N]     # of tests.helpers.flink.make_fixtures --big KEYS --out DIR
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import stateproc
from benchmarks.threads import opened
from stateproc.model.parallel_scan import available_cores

_ROUNDS = 3
_FORMATS = (("parquet", "snappy"), ("parquet", "zstd"), ("delta", "snappy"), ("arrow", "lz4"))

_EXPORT = """
import json, sys, time
import stateproc
path, directory, form, compression, threads = sys.argv[1:]
snapshot = stateproc.open(path, uids=["big"], key_type="Long")
begin = time.perf_counter()
done = snapshot.export(directory, format=form, compression=compression, states=["profile"], threads=int(threads))
seconds = time.perf_counter() - begin
# Not ru_maxrss, which begins with the memory of the process that started this one.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([done.rows / seconds, done.bytes / done.rows, int(peak) / 1024]))
"""


def exports(path: str, threads: int) -> dict[str, list[float]]:
    """Export in a process of its own, some rounds; return the medians: rows per second, bytes per row, peak MB."""
    found = {}
    for form, compression in _FORMATS:
        rounds = []
        for _ in range(_ROUNDS):
            with tempfile.TemporaryDirectory() as directory:
                command = [sys.executable, "-c", _EXPORT, path, str(Path(directory, "out")), form, compression]
                done = subprocess.run([*command, str(threads)], capture_output=True, text=True, check=True)
            rounds.append(json.loads(done.stdout))
        found[f"{form}, {compression}"] = [round(statistics.median(column), 1) for column in zip(*rounds, strict=True)]
    return found


def query(path: str) -> dict[str, float]:
    """Return which share of the bytes a query for one key reads, and how long it takes."""
    snapshot = stateproc.open(path, uids=["big"], key_type="Long")
    key = opened(path).head(1, columns=["key"]).column("key")[0].as_py()
    with closing(snapshot.sql_database()) as database:
        # Loads modules and headers.
        database.run("SELECT key FROM profile WHERE key = 0").reader().read_all()
        before, begin = _bytes_read(), time.perf_counter()
        rows = database.run(f"SELECT * FROM profile WHERE key = {key}").reader().read_all()
        seconds, read = time.perf_counter() - begin, _bytes_read() - before
    assert len(rows) == 1
    return {"share of the bytes": read / snapshot.file_bytes, "seconds": seconds}


def _bytes_read() -> int:
    return int(Path("/proc/self/io").read_text().split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path")
    parser.add_argument("--threads", type=int, default=available_cores())
    given = parser.parse_args()
    figures = {
        "export: rows per second, bytes per row, peak MB": exports(given.path, given.threads),
        "sql, one key": query(given.path),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
