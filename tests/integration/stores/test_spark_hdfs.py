"""Snapshots in a real HDFS: read, written, replaced, given up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import stateproc
from stateproc import InvalidOption, OperatorBootstrap, SavepointWriter
from stateproc.errors import MissingFile
from stateproc.storage.store import StorePath
from stateproc.writers.commit.commit import Commit
from tests.helpers.stores.hdfs import hdfs
from tests.helpers.stores.remote_store import RemoteStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield uri


def upload(store: str, directory: Path, name: str) -> str:
    return RemoteStore(store, {}).upload(directory, name)


def names(store: str, name: str) -> list[str]:
    fs, _ = StorePath(store).filesystem()
    return sorted(path.removeprefix(f"/{name}/") for path in fs.find(f"/{name}"))


def contents(path: str | Path) -> list[Any]:
    snapshot = stateproc.open(path)
    return [(state.name, state.to_arrow()) for operator in snapshot.operators for state in operator.states]


@pytest.mark.parametrize("kind", ["demo", "tiny-rocksdb-full", "tiny-rocksdb-changelog"])
def test_every_kind_reads_as_from_a_disk(store: str, fixtures: Path, kind: str) -> None:
    directory = fixtures / "1.20" / kind / "snapshot"
    last = sorted(path.parent for path in directory.rglob("_metadata"))[-1]
    uri = upload(store, directory, kind)
    assert contents(f"{uri}/{last.relative_to(directory)}".removesuffix("/.")) == contents(last)


def test_places_that_are_none(store: str, fixtures: Path) -> None:
    upload(store, fixtures / "1.20/demo/snapshot", "demo")
    with pytest.raises(MissingFile, match=f"did you mean {store}/demo"):
        stateproc.open(f"{store}/demoo")
    with pytest.raises(MissingFile, match=f"{store} holds"):
        stateproc.open(f"{store}/none/at/all")


FORKING = """
import subprocess, sys, stateproc
print(len(stateproc.open(sys.argv[1]).operators))
subprocess.run(["true"], preexec_fn=lambda: None, check=True)
"""


def test_a_process_that_has_read_can_start_others(store: str, fixtures: Path) -> None:
    """As a Spark session is started by a fork."""
    uri = upload(store, fixtures / "1.20/demo/snapshot", "demo")
    command = [sys.executable, "-c", FORKING, uri]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout == "3\n"


def test_files_given_up_and_writes_that_are_over(store: str) -> None:
    write = Commit.begin(StorePath.of(f"{store}/given-up/deep"))
    file = write.staging.new_file()
    file.write(bytes(5 << 20))
    assert file.name in names(store, "given-up/deep")
    file.discard()
    assert len(names(store, "given-up/deep")) == 1
    write.abort()
    assert not StorePath(store).filesystem()[0].exists("/given-up/deep")


def test_spark_writes_replaces_and_reads(spark: SparkSession, store: str) -> None:
    def writer(rows: int) -> SavepointWriter:
        state = OperatorBootstrap().value_state("s", spark.sql(f"select id key, id * 2 value from range({rows})"))
        return SavepointWriter.new_savepoint(spark).with_operator("op", state).with_parallelism("op", 3)

    path = writer(10_000).write(f"{store}/made")
    first = names(store, "made")
    assert len(first) == 4 and "_metadata" in first
    with pytest.raises(InvalidOption, match="a snapshot is here already"):
        writer(5).write(path)
    writer(20_000).write(path, mode="overwrite")
    assert len(names(store, "made")) == 4 and set(first) & set(names(store, "made")) == {"_metadata"}
    read = spark.read.format("savepoint").options(uid="op", state="s").load(path)
    assert read.selectExpr("count(*)", "sum(key)", "sum(value)").first() == (20_000, 199_990_000, 399_980_000)
    again = SavepointWriter.from_existing_savepoint(spark, path).with_format("native-rocksdb")
    with pytest.raises(InvalidOption, match="made from"):
        again.write(f"{path}/inside")
    moved = again.write(f"{store}/rewritten")
    assert stateproc.open(moved).operator("op").state("s").to_arrow().num_rows == 20_000
