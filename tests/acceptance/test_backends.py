"""Flink's backends restore the snapshots that `check --backend` says they restore, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.fixtures import fixtures
from tests.helpers.flink.backend_restores import MOVED, RESTORED
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import BACKENDS, Spec, restore

pytestmark = pytest.mark.flink


@pytest.mark.parametrize("release", ["1.20", "2.3"])
def test_backends(release: str, tmp_path: Path) -> None:
    known = {fixture.name: fixture for fixture in fixtures() if fixture.name in RESTORED}
    specs = [
        Spec(name.replace("/", "_"), known[name].snapshot, OPERATORS["tiny"], parallelisms=(2,))
        for name in RESTORED
        if name.startswith("2.3") is (release == "2.3")
    ]
    for name, restored in restore(release, specs, tmp_path / "work").items():
        name = name.replace("_", "/", 1)
        for backend, expected in zip(BACKENDS, RESTORED[name], strict=True):
            run = restored.runs[backend, 2]
            if name in MOVED and expected:
                assert "FileNotFoundException" in str(run.error)
            else:
                assert (run.error is None) is expected, (name, backend, run.error)
