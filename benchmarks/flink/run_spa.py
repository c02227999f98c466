"""Flink 1.20's State Processor API on a snapshot of `make_fixtures.py --big`, to compare with.

`python run_spa.py SNAPSHOT [--backend rocksdb] [--limit ROWS] [--parallelism 2] [--memory 4g]` prints one line of JSON:
rows, seconds (of the Flink job, not of the JVM's start), rows_per_second, max_rss_bytes. Java 17 and Maven are needed;
the jars are those of `tests/flink/jars.py`. Flink loads all state before the first row, so that a limit tries the
benchmark out, but says nothing about its speed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests" / "flink"))

from compiling import JAVA, compiled, core_folders  # noqa: E402

RELEASE = "1.20"


def command(
    snapshot: Path, limit: int = 0, parallelism: int = 2, memory: str = "4g", backend: str = "hashmap"
) -> list[str]:
    """The command that reads `snapshot`; fetches and compiles what it needs. A limit of 0 is none."""
    path = compiled(RELEASE, "core", [*core_folders(RELEASE), HERE / "java"])
    arguments = [snapshot.resolve().as_uri(), str(parallelism), str(limit), backend]
    return [*JAVA, f"-Xmx{memory}", "-cp", path, "benchmarks.SpaRead", *arguments]


def writing(target: Path, keys: int, parallelism: int = 2, memory: str = "4g") -> list[str]:
    """The command that bootstraps the same state into the directory `target`."""
    path = compiled(RELEASE, "core", [*core_folders(RELEASE), HERE / "java"])
    return [
        *JAVA,
        f"-Xmx{memory}",
        "-cp",
        path,
        "benchmarks.SpaWrite",
        target.resolve().as_uri(),
        str(parallelism),
        str(keys),
    ]


def main() -> int:
    """Runs the benchmark; the exit code is Java's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path, help="directory of the savepoint or checkpoint")
    parser.add_argument("--write", type=int, metavar="KEYS", help="write a savepoint of so many keys there instead")
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap", help="where Flink loads it")
    parser.add_argument("--limit", type=int, default=0, metavar="ROWS", help="read this many rows at most")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--memory", default="4g", help="heap of the JVM, default 4g")
    given = parser.parse_args()
    if given.write is not None:
        return subprocess.run(writing(given.snapshot, given.write, given.parallelism, given.memory)).returncode
    return subprocess.run(
        command(given.snapshot, given.limit, given.parallelism, given.memory, given.backend)
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
