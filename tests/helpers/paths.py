"""Names the folders that tests read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.helpers.fixture_archives import unpacked

ROOT = Path(__file__).resolve().parents[2]
"""The repository."""
TESTS = ROOT / "tests"
HELPERS = TESTS / "helpers"
VECTORS = TESTS / "vectors"
CACHE = Path(os.environ.get("STATEPROC_CACHE") or Path.home() / ".cache" / "stateproc")
"""Outside the repository: jars of Flink, compiled jobs, unpacked fixtures."""
FIXTURE_ARCHIVES = TESTS / "fixtures"
FIXTURES = unpacked(FIXTURE_ARCHIVES, CACHE / "fixtures")
"""All fixtures as folders, `<release>/<case>/`, unpacked once for all test processes."""
DEMO = FIXTURE_ARCHIVES / "1.20" / "demo" / "snapshot"
"""The snapshot that README, docs and `make demo` open."""
WORKER_PLUGINS = HELPERS / "spark" / "plugins"
"""On the path of Spark's Python workers: plugins for tests."""


def python_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment in which other processes can import stateproc, the helpers and the plugins for tests."""
    paths = [str(ROOT), str(WORKER_PLUGINS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), **(extra or {})}
