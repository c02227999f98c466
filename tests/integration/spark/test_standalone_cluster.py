"""A standalone cluster of two workers that shares only an object store with the driver; more in tests/cluster."""

from __future__ import annotations

from pathlib import Path

import stateproc
from tests.helpers.spark.cluster_program import OPERATOR, STATE
from tests.helpers.spark.standalone_cluster import SPECULATION, standalone_cluster, totals, write_and_read
from tests.helpers.stores.object_store import BUCKET, object_store


def test_states_are_written_and_read_with_speculation(tmp_path: Path) -> None:
    rows, target = 50_000, f"s3://{BUCKET}/speculated"
    with object_store() as store, standalone_cluster(tmp_path) as cluster:
        written, rewritten, found = cluster.run(write_and_read(rows, target, store.options), SPECULATION)
        assert written.get("result") == f"{target}/one", written
        assert rewritten.get("result") == f"{target}/two", rewritten
        assert found.get("result") == totals(rows), found
        snapshot = stateproc.open(f"{target}/two", storage_options=store.options, uids=[OPERATOR])
        assert snapshot.state(OPERATOR, STATE).to_arrow().num_rows == rows
        assert snapshot.verify().is_intact
        assert not [name for name in store.names("speculated/two") if name.startswith(".")]
