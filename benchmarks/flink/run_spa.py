"""Flink's State Processor API on a snapshot of `make_fixtures.py --big`, to compare with.

`python -m benchmarks.flink.run_spa SNAPSHOT [--release 1.20] [--backend rocksdb] [--limit ROWS] [--parallelism 2]
[--memory 4g] [--option NAME=VALUE]` prints one line of JSON: rows, seconds (of the Flink job, without the JVM's start),
rows_per_second, max_rss_bytes. Java 17 is needed; the jars are those of `tests/helpers/flink/jars.py`. Flink loads all
state before the first row, so that a limit tries the benchmark out, but says nothing about its speed.

`python -m benchmarks.flink.run_spa DIRECTORY --write KEYS [--backend rocksdb] [--source keys] [--object-reuse]`
bootstraps such a state instead.

RocksDB's memory is not managed by Flink here, unlike by default. The State Processor API manages it by a MemoryManager
of 64 MB that its SavepointEnvironment makes for each split, whatever the cluster has. Of that the block cache gets
53 MB in 64 shards of 874 KB, for index blocks, too. Restored, 2.5 million keys are compacted to one file of 56 MB,
whose index block of 702 KB does not fit into a shard that the write buffers have a share of 256 KB in. So it is read
again for nearly each key (`readKey` looks the value up, the API then deletes the key): 5 million keys were not read in
108 s of CPU time, most of it in RocksDB.get. Not managed they took 36 s, with 512 MB for each slot 39 s. To see it:
`--option state.backend.rocksdb.memory.managed=true`.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.flink.compilation import JAVA, compiled, core_folders

HERE = Path(__file__).resolve().parent


RELEASES = ("1.20", "2.3")
OPTIONS = {"hashmap": (), "rocksdb": ("state.backend.rocksdb.memory.managed=false",)}
"""State backend → Flink's options that it is run with."""


def command(
    snapshot: Path,
    limit: int = 0,
    parallelism: int = 2,
    memory: str = "4g",
    backend: str = "hashmap",
    options: Sequence[str] = (),
    release: str = RELEASES[-1],
) -> list[str]:
    """The command that reads `snapshot`; fetches and compiles what it needs. A limit of 0 is none; `options`: Flink's,
    as NAME=VALUE."""
    path = compiled(release, "core", [*core_folders(release), HERE / "java"])
    arguments = [snapshot.resolve().as_uri(), str(parallelism), str(limit), backend, *OPTIONS[backend], *options]
    return [*JAVA, f"-Xmx{memory}", "-cp", path, "benchmarks.SpaRead", *arguments]


def writing(
    target: Path,
    keys: int,
    parallelism: int = 2,
    memory: str = "4g",
    backend: str = "hashmap",
    source: str = "records",
    reuse: bool = False,
    release: str = RELEASES[-1],
) -> list[str]:
    """The command that bootstraps the same state into the directory `target`; `source`: "records" that come whole, as
    rows of a DataFrame do, or "keys" of which they are made where they are stored; `reuse`: of objects by Flink."""
    path = compiled(release, "core", [*core_folders(release), HERE / "java"])
    arguments = [target.resolve().as_uri(), str(parallelism), str(keys), backend, source, str(reuse).lower()]
    return [*JAVA, f"-Xmx{memory}", "-cp", path, "benchmarks.SpaWrite", *arguments]


def main() -> int:
    """Runs the benchmark; the exit code is Java's."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("snapshot", type=Path, help="directory of the savepoint or checkpoint")
    parser.add_argument("--release", choices=RELEASES, default=RELEASES[-1], help="of Flink")
    parser.add_argument("--write", type=int, metavar="KEYS", help="write a savepoint of so many keys there instead")
    parser.add_argument("--source", choices=("records", "keys"), default="records", help="what is written comes as")
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap", help="where Flink loads it")
    parser.add_argument("--object-reuse", action="store_true", help="pipeline.object-reuse, for writing")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="one of Flink's options")
    parser.add_argument("--limit", type=int, default=0, metavar="ROWS", help="read this many rows at most")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--memory", default="4g", help="heap of the JVM, default 4g")
    given = parser.parse_args()
    if given.write is not None:
        command_ = writing(
            given.snapshot, given.write, given.parallelism, given.memory, given.backend, given.source,
            given.object_reuse, given.release,
        )  # fmt: skip
        return subprocess.run(command_).returncode
    command_ = command(
        given.snapshot, given.limit, given.parallelism, given.memory, given.backend, given.option, given.release
    )
    return subprocess.run(command_).returncode


if __name__ == "__main__":
    raise SystemExit(main())
