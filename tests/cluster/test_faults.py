"""Writes on a cluster go on although processes are killed, and the store is busy, slow, or drops connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stateproc
from tests.helpers.spark.cluster_program import OPERATOR, STATE
from tests.helpers.spark.standalone_cluster import Cluster, standalone_cluster, totals, write_and_read
from tests.helpers.stores.faulty_proxy import Faults, faulty_proxy
from tests.helpers.stores.object_store import BUCKET, Store, object_store


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with object_store() as made:
        yield made


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path) as started:
        yield started


def check_target(store: Store, name: str, rows: int) -> None:
    """Read a savepoint in this process, and check that nothing of the write is left beside it."""
    snapshot = stateproc.open(f"s3://{BUCKET}/{name}", storage_options=store.options, uids=[OPERATOR])
    assert snapshot.state(OPERATOR, STATE).to_arrow().num_rows == rows
    assert snapshot.verify().is_intact
    assert not [item for item in store.names(name) if item.startswith(".")]


@pytest.mark.parametrize("kill", ["executor", "worker"])
def test_a_process_is_killed_meanwhile(cluster: Cluster, store: Store, kill: str) -> None:
    """Executors end with their worker, and with them the shuffled blocks that they serve."""
    rows = 1_000_000
    written, rewritten, found = cluster.run(write_and_read(rows, f"s3://{BUCKET}/{kill}", store.options, kill))
    print(written, rewritten, found)
    assert rewritten.get("result") == f"s3://{BUCKET}/{kill}/two", rewritten
    assert rewritten["killed"] == 1 and found.get("result") == totals(rows), found
    check_target(store, f"{kill}/two", rows)


def test_a_store_that_is_busy_slow_and_drops_connections(cluster: Cluster, store: Store) -> None:
    rows, faults = 200_000, Faults(busy=0.1, slow=0.05, dropped=0.05)
    with faulty_proxy(store.endpoint, faults) as endpoint:
        options = {**store.options, "endpoint_url": endpoint}
        written, rewritten, found = cluster.run(write_and_read(rows, f"s3://{BUCKET}/faults", options))
    print(written, rewritten, found, dict(faults.happened))
    assert rewritten.get("result") == f"s3://{BUCKET}/faults/two", (written, rewritten)
    assert found.get("result") == totals(rows), found
    check_target(store, "faults/two", rows)
    assert min(faults.happened[kind] for kind in ("busy", "slow", "dropped")) > 0
