"""A node without the package is named by one sentence before anything is written."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.spark.standalone_cluster import HOSTS, standalone_cluster, write_and_read
from tests.helpers.stores.object_store import BUCKET, object_store

_HIDES = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "stateproc" else super().find_spec(name, path, target)

sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""
"""A module sitecustomize, which Python imports when it starts."""


def test_a_node_without_the_package(tmp_path: Path) -> None:
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(_HIDES)
    lacking = {HOSTS[1]: {"PYTHONPATH": str(tmp_path / "hiding")}}
    with object_store() as store, standalone_cluster(tmp_path / "cluster", lacking) as cluster:
        (refused, *_) = cluster.run(write_and_read(1000, f"s3://{BUCKET}/lacking", store.options)[:1])
        assert store.names("lacking/one") == []
    message, _, advice = refused["error"].partition("\n")
    assert message.startswith("Spark's executors on ") and message.endswith(" have no package stateproc"), refused
    assert "--archives" in advice and "Traceback" not in refused["error"]
