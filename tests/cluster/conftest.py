"""One cluster for all tests that leave it as it was, and the stores that its processes share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.spark.standalone_cluster import Cluster, standalone_cluster
from tests.helpers.stores.hdfs import hdfs
from tests.helpers.stores.object_store import BUCKET, object_store
from tests.helpers.stores.remote_store import RemoteStore


@pytest.fixture(scope="session")
def lasting_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def s3() -> Iterator[RemoteStore]:
    with object_store() as made:
        yield RemoteStore(f"s3://{BUCKET}", made.options)


@pytest.fixture(scope="session")
def distributed_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteStore]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as uri:
        yield RemoteStore(uri, {})
