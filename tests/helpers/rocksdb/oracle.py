"""Run Oracle.java, Rescale.java and Chain.java with the RocksDB of a Flink release (frocksdbjni from Maven Central).

`python -m tests.helpers.rocksdb.oracle 8.10.0-ververica-1.0 Oracle <directory> <first seed> <seeds>` writes databases
and lists their contents.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.helpers.flink.jars import cache
from tests.helpers.flink.maven_central import fetched
from tests.helpers.paths import HELPERS
from tests.helpers.quick_java import QUICK_JAVA

OLDEST, OLD, NEW = "5.17.2-ververica-2.1", "6.20.3-ververica-2.0", "8.10.0-ververica-1.0"
"""Of Flink 1.10 to 1.13, of 1.14 to 1.20, and of 2.x."""
_SOURCES = HELPERS / "rocksdb"
_ENVIRONMENT = {**os.environ, "LC_ALL": "C.UTF-8"}


def jar(version: str) -> Path:
    """frocksdbjni, fetched on first use."""
    (path,) = fetched([("com.ververica", "frocksdbjni", version)], cache() / f"frocksdbjni-{version}")
    return path


def generate(version: str, program: str, directory: Path, first: int, seeds: int) -> list[Path]:
    """One directory per seed, all written in one JVM: ``checkpoint`` and ``<column family>.expected``.

    ``program``: Oracle, Rescale or Chain, which describes its own files.
    """
    tables = _SOURCES / ("until_5" if version < "6" else "since_6") / "Tables.java"
    sources = [tables, *(_SOURCES / f"{name}.java" for name in dict.fromkeys(("Oracle", program)))]
    with tempfile.TemporaryDirectory() as classes:
        compiler = ["javac", "-encoding", "UTF-8", "-d", classes, "-cp", str(jar(version)), *map(str, sources)]
        subprocess.run(compiler, check=True, env=_ENVIRONMENT)
        java = ["java", "-Dfile.encoding=UTF-8", *QUICK_JAVA, "-cp", f"{jar(version)}:{classes}", program]
        subprocess.run([*java, str(directory), str(first), str(seeds)], check=True, env=_ENVIRONMENT)
    return [directory / str(seed) for seed in range(first, first + seeds)]


def opened(version: str, directories: list[Path]) -> list[list[tuple[str, int, int]]]:
    """Has RocksDB open the ``db`` of each directory (Written.java): per directory and column family its name, keys,
    and how many of 1,000 absent keys its filter rejects. Their contents are listed beside them, for `expected`.
    """
    tables = _SOURCES / ("until_5" if version < "6" else "since_6") / "Tables.java"
    sources = [tables, _SOURCES / "Oracle.java", _SOURCES / "Written.java"]
    with tempfile.TemporaryDirectory() as classes:
        compiler = ["javac", "-encoding", "UTF-8", "-d", classes, "-cp", str(jar(version)), *map(str, sources)]
        subprocess.run(compiler, check=True, env=_ENVIRONMENT)
        java = ["java", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", *QUICK_JAVA]
        command = [*java, "-cp", f"{jar(version)}:{classes}", "Written", *map(str, directories)]
        printed = subprocess.run(command, check=True, env=_ENVIRONMENT, stdout=subprocess.PIPE, text=True).stdout
    found: list[list[tuple[str, int, int]]] = []
    for line in printed.splitlines():
        name, keys, useful = line.rsplit("\t", 2)
        if name == "default":
            found.append([])
        found[-1].append((name, int(keys), int(useful)))
    return found


def expected(path: Path) -> dict[bytes, bytes]:
    """Key → value in RocksDB's order, from an ``.expected`` file."""
    data, at, items = path.read_bytes(), 0, []
    while at < len(data):
        (length,) = struct.unpack_from(">i", data, at)
        items.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return dict(zip(items[::2], items[1::2], strict=True))


if __name__ == "__main__":
    version, program, directory, first, seeds = sys.argv[1:]
    generate(version, program, Path(directory), int(first), int(seeds))
