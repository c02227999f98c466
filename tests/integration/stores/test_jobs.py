"""Jobs in an object store: sources, base, target, pointer and report on S3; secrets as storage options."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stateproc
from stateproc.jobs.job_run import execute_job
from tests.helpers.paths import ROOT
from tests.helpers.stores.object_store import BUCKET, Store, object_store

_OPTIONS = {"endpoint_url": "${endpoint}", "key": "id", "secret": "${secret:S3}"}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        made.upload(ROOT / "stateproc/demo/data/shop", "shop")
        table = io.BytesIO()
        pq.write_table(pa.table({"key": [1, 2], "value": ["a", "b"]}), table)
        made.client.put_object(Bucket=BUCKET, Key="names/part-0.parquet", Body=table.getvalue())
        yield made


def test_a_job_in_a_store_is_repeatable(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATEPROC_SECRET_S3", "secret")
    job: dict[str, Any] = {
        "job": "in-a-store",
        "variables": {"endpoint": "none"},
        "base": {"path": f"s3://{BUCKET}/shop", "open": {"storage_options": _OPTIONS}},
        "sources": {"names": {"format": "parquet", "path": f"s3://{BUCKET}/names", "storage_options": _OPTIONS}},
        "operators": [{"uid": "names", "states": [{"kind": "value", "name": "name", "source": "names"}]}],
        "target": {"path": f"s3://{BUCKET}/out/{{run_id}}"},
        "checks": [{"rows": "names", "min": 2}, {"state": "name", "uid": "names", "min": 2}],
        "latest": f"s3://{BUCKET}/out/latest",
        "report": f"s3://{BUCKET}/out/report.json",
    }
    variables = {"endpoint": store.endpoint}
    first = stateproc.run_job(job, variables=variables)
    assert (first.status, [item.passed for item in first.checks]) == ("written", [True, True])
    run = f"out/{first.run_id}"
    names = store.names(run)
    assert {"_metadata", "_stateproc_job.json"} <= set(names) and not [name for name in names if name.startswith(".")]
    snapshot = stateproc.open(first.target, uids=["names"], storage_options=store.options)
    assert sorted(snapshot.state("names", "name").to_arrow()["value"].to_pylist()) == ["a", "b"]
    assert len(snapshot.operators) == 4

    def content(key: str) -> str:
        return str(store.client.get_object(Bucket=BUCKET, Key=key)["Body"].read().decode())

    assert content("out/latest") == f"{first.target}\n"
    assert json.loads(content("out/report.json"))["status"] == "written"
    assert '"secret": "secret"' not in content(f"{run}/_stateproc_job.json")
    assert stateproc.run_job(job, variables=variables).status == "unchanged"
    assert store.names(run) == names
    # Another file in the source is another run.
    store.client.put_object(Bucket=BUCKET, Key="names/part-1.parquet", Body=b"not Parquet")
    failed = execute_job(job, variables=variables)
    assert failed.error is not None and "names" in str(failed.error)
    assert store.names("out") == [
        name.removeprefix("out/") for name in (*(f"{run}/{item}" for item in names), "out/latest", "out/report.json")
    ]
    store.client.delete_object(Bucket=BUCKET, Key="names/part-1.parquet")
    assert stateproc.run_job(job, variables=variables).status == "unchanged"
