"""Snapshots that differ from Flink's own, in lambdas of nested SQL collections: Flink takes them as they are."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from stateproc import types
from stateproc.flink_versions import release
from stateproc.serializers import proxied_snapshot
from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.quick_java import QUICK_JAVA

pytestmark = pytest.mark.flink

PROXY_VERSION = 4  # bytes in front of the snapshot
TYPES = [
    "INT",
    "ARRAY<INT>",
    "MAP<STRING, INT>",
    "ROW<a INT NOT NULL, b STRING>",
    "ARRAY<ARRAY<INT>>",
    "ARRAY<MAP<STRING, INT>>",
    "ARRAY<MULTISET<STRING>>",
    "MAP<STRING, ARRAY<ROW<a INT, b STRING>>>",
    "MAP<ROW<a INT>, ROW<b ARRAY<STRING>>>",
    "ROW<a ARRAY<ROW<x INT, y ARRAY<STRING>>>, b MAP<INT, ARRAY<DECIMAL(20, 2)>>, c MULTISET<ROW<z TIMESTAMP(9)>>>",
]


@pytest.mark.parametrize("line", ["1.20", "2.3"])
def test_flink_takes_our_snapshots_of_sql_types_as_they_are(line: str, tmp_path: Path) -> None:
    source, found = tmp_path / "snapshots.tsv", tmp_path / "found.tsv"
    snapshots = {name: proxied_snapshot(types.Sql(name), release(line))[PROXY_VERSION:] for name in TYPES}
    source.write_text("".join(f"{name}\t{snapshot.hex()}\n" for name, snapshot in snapshots.items()))
    path = compiled(line, "fixtures", [JOBS / "types"])
    subprocess.run([*JAVA, *QUICK_JAVA, "-cp", path, "accepting.Accepting", str(source), str(found)], check=True)
    assert dict(row.split("\t") for row in found.read_text().splitlines()) == dict.fromkeys(TYPES, "as is")
