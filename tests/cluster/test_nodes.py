"""A node that cannot run the package is named by one sentence before anything is written."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.spark.standalone_cluster import HOSTS, Cluster, standalone_cluster, write_and_read
from tests.helpers.stores.remote_store import RemoteStore

_HIDES = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "{name}" else super().find_spec(name, path, target)

sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""
"""A module sitecustomize, which Python imports when it starts."""


def refused(cluster: Cluster, store: RemoteStore, **arguments: Any) -> tuple[str, str]:
    """Return the message and the advice of the error of a write; `attach` fails, too, and nothing is written."""
    target = f"{store.root}/refused"
    step = write_and_read(1000, target, store.options)[0]
    attach = {"name": "attach", "source": target, "options": store.options}
    first, second = cluster.run([step, attach], **arguments)
    print(first, second)
    assert store.names(target) == set()
    assert "Traceback" not in first["error"] and "\tat " not in first["error"]
    message, _, advice = first["error"].partition("\n")
    assert second["error"].startswith("Spark's executors on ")
    return message, advice


@pytest.mark.parametrize("package", ["stateproc", "pyarrow"])
def test_a_node_without_a_package(tmp_path: Path, s3: RemoteStore, package: str) -> None:
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(_HIDES.format(name=package))
    lacking = {HOSTS[1]: {"PYTHONPATH": str(tmp_path / "hiding")}}
    with standalone_cluster(tmp_path / "cluster", lacking) as cluster:
        message, advice = refused(cluster, s3)
    assert message.startswith("Spark's executors on ") and "Python" not in message
    assert message.endswith(f" cannot import stateproc (No module named '{package}')")
    assert "--archives" in advice and "docs/howto/clusters.md" in advice


def other_python() -> Path:
    """Return the folder of another minor version's ``python3``; skip the test where there is none."""
    versions = [f"python3.{minor}" for minor in range(9, 16) if minor != sys.version_info.minor]
    found = [Path(path) for path in map(shutil.which, versions) if path is not None]
    managed = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    found += [path for name in versions for path in sorted(managed.glob(f"*/bin/{name}"))]
    if not found:
        pytest.skip("there is no other version of Python 3")
    return found[-1]


def test_a_node_with_another_python(tmp_path: Path, s3: RemoteStore) -> None:
    """Each host finds python3 by its own PATH. Spark repeats tasks that fail where they may succeed."""
    other = other_python()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(other)
    path = {HOSTS[1]: {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}}
    with standalone_cluster(tmp_path / "cluster", path) as cluster:
        message, advice = refused(cluster, s3, python="python3")
        missing, _ = refused(cluster, s3, python="./environment/bin/python")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert message.startswith(f"Spark's executors on {HOSTS[1]} cannot run Python: [PYTHON_VERSION_MISMATCH] ")
    assert f"different version: {other.name.removeprefix('python')}" in message and message.endswith(version)
    assert "--archives" in advice
    assert missing.startswith("Spark's executors on 127.0.0.")
    assert 'cannot run Python: Cannot run program "./environment/bin/python"' in missing
