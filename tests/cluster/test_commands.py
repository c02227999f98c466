"""Verbs and jobs run on a cluster that shares an object store or HDFS with the driver, and nothing else."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.helpers.spark.cluster_commands import (
    BALANCE,
    NOW,
    SEEN,
    TAGS,
    UID,
    contents,
    driver_environment,
    ran,
    settings,
    stateproc_command,
    write_accounts,
)
from tests.helpers.spark.standalone_cluster import SPECULATION, Cluster, totals, write_and_read
from tests.helpers.stores.remote_store import RemoteStore

ROWS = 100_000
MAIN = "from stateproc.cli import main\nraise SystemExit(main())\n"


@pytest.fixture(scope="module", params=["s3", "distributed_store"])
def store(request: pytest.FixtureRequest) -> RemoteStore:
    found: RemoteStore = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def source(store: RemoteStore) -> str:
    return write_accounts(f"{store.root}/accounts", ROWS, store.options)


@pytest.fixture(scope="module")
def expected(source: str, store: RemoteStore) -> dict[str, pa.Table]:
    return contents(source, store.options)


def unexpired(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the rows whose last access was at NOW."""
    seen = tables[SEEN]
    return {**tables, SEEN: seen.take(pc.indices_nonzero(pc.equal(pc.bit_wise_and(seen["key"], 1), 0)))}


VERBS: dict[str, list[str]] = {
    "rescale": ["rescale", "--max-parallelism", "1024", "--parallelism", f"{UID}=5"],
    "convert": ["convert", "--to", "native-rocksdb"],
    "purge": ["ttl", "purge", "--uid", UID, "--state", SEEN, "--ttl", "5 s", "--now", str(NOW)],
    "rename": ["rename-operator", "--uid", UID, "--to", "customers"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb(
    lasting_cluster: Cluster, store: RemoteStore, source: str, expected: dict[str, pa.Table], verb: str, tmp_path: Path
) -> None:
    words = VERBS[verb]
    positional = 2 if words[0] == "ttl" else 1
    target = f"{store.root}/{verb}"
    line = [*words[:positional], source, target, *words[positional:], "--uids", UID, *store.arguments]
    done = stateproc_command([*line, "--engine", "spark", "--master", lasting_cluster.url, "--json"], tmp_path)
    assert done.status == 0, done.err
    report = json.loads(done.out)
    print(verb, store.root, report["entries"], round(done.seconds, 1), "seconds")
    assert report["engine"] == "spark" and report["target"] == target
    found = contents(target, store.options, "customers" if verb == "rename" else UID)
    assert found == (unexpired(expected) if verb == "purge" else expected)
    assert not [name for name in store.names(target) if name.startswith(".")]


def job_of(store: RemoteStore, source: str, target: str) -> dict[str, Any]:
    """Return a job that changes the savepoint, and adds an operator of the rows of one of its states."""
    opened = {"uids": [UID], "storage_options": store.options}
    large = "SELECT key, value * 10 AS value FROM balances WHERE value >= 1000"
    return {
        "job": "on-a-cluster",
        "engine": "spark",
        "base": {"path": source, "open": opened},
        "changes": [{"rescale": {"max_parallelism": 256}}, {"drop-state": {"uid": UID, "state": [TAGS]}}],
        "sources": {
            "balances": {"snapshot": source, "uid": UID, "state": BALANCE, "open": opened},
            "large": {"sql": large},
        },
        "operators": [{"uid": "large", "states": [{"kind": "value", "name": "tenfold", "source": "large"}]}],
        "target": {"path": target, "storage_options": store.options},
        "checks": [
            {"rows": "large", "min": ROWS - 500, "max": ROWS - 500},
            {"state": BALANCE, "uid": UID, "min": ROWS, "max": ROWS},
        ],
    }


@pytest.mark.parametrize("start", ["run", "spark-submit"])
def test_a_job(
    lasting_cluster: Cluster, store: RemoteStore, source: str, expected: dict[str, pa.Table], start: str, tmp_path: Path
) -> None:
    """The second run, with the other engine's words for the master, finds what the first has written."""
    target = f"{store.root}/job-{start}"
    job = job_of(store, source, target)
    (tmp_path / "main.py").write_text(MAIN)
    if start == "run":
        job["spark"] = {"master": lasting_cluster.url}
        command = [sys.executable, "-m", "stateproc"]
    else:
        submit = str(Path(sys.executable).with_name("spark-submit"))
        command = [submit, "--master", lasting_cluster.url, *settings(), "main.py"]
    (tmp_path / "job.json").write_text(json.dumps(job))
    environment = driver_environment()
    if start == "spark-submit":
        del environment["PYSPARK_SUBMIT_ARGS"]
    for status in ("written", "unchanged"):
        done = ran([*command, "run", "job.json", "--json"], tmp_path, environment)
        assert done.status == 0, done.err
        report = json.loads(done.out[done.out.index("{") :])
        print(start, store.root, status, round(done.seconds, 1), "seconds")
        assert (report["status"], report["engine"], report["target"]) == (status, "spark", target)
    found = contents(target, store.options)
    assert found == {name: expected[name] for name in (BALANCE, SEEN)}
    tenfold = contents(target, store.options, "large")["tenfold"]
    keys = pa.array(range(500, ROWS), pa.int64())
    assert tenfold.select(["key", "value"]) == pa.table({"key": keys, "value": pc.multiply(keys, 20)})


def test_dataframes_on_hdfs(lasting_cluster: Cluster, distributed_store: RemoteStore) -> None:
    """As test_standalone_cluster does on S3."""
    target = f"{distributed_store.root}/frames"
    attach = {"name": "attach", "source": f"{target}/two", "options": {}}
    steps = [*write_and_read(1_000_000, target, {}), attach]
    written, rewritten, found, attached = lasting_cluster.run(steps, SPECULATION)
    print(written, rewritten, found)
    assert len(attached.get("result", [])) > 0, attached
    assert rewritten.get("result") == f"{target}/two", (written, rewritten)
    assert found.get("result") == totals(1_000_000), found
    assert contents(f"{target}/two")[BALANCE].num_rows == 1_000_000


def test_bootstrap_from_parquet_on_hdfs(
    lasting_cluster: Cluster, distributed_store: RemoteStore, tmp_path: Path
) -> None:
    table = pa.table({"key": range(ROWS), "value": [f"name {key}" for key in range(ROWS)]})
    (tmp_path / "names").mkdir()
    for part in range(4):
        pq.write_table(table.slice(part * ROWS // 4, ROWS // 4), tmp_path / f"names/part-{part}.parquet")
    names = distributed_store.upload(tmp_path / "names", "names")
    target = f"{distributed_store.root}/named"
    line = ["bootstrap", names, target, "--format", "parquet", "--uid", UID, "--kind", "value", "--state", "name"]
    done = stateproc_command([*line, "--engine", "spark", "--master", lasting_cluster.url, "--json"], tmp_path)
    assert done.status == 0, done.err
    print("bootstrap from Parquet", round(done.seconds, 1), "seconds")
    assert contents(target)["name"].select(["key", "value"]) == table
