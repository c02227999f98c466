"""Jobs over real Delta tables: a version is bootstrapped once, checks decide, the pointer follows."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.helpers.document_runs import environment

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run all cases in one process: Delta's jars are loaded when a JVM starts."""
    folder = tmp_path_factory.mktemp("delta")
    program = [sys.executable, "-m", "tests.helpers.spark.delta_jobs", str(folder)]
    done = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return result


def test_a_version_of_a_table_is_bootstrapped_once(found: dict[str, Any]) -> None:
    bootstrap = found["bootstrap"]
    assert bootstrap["statuses"] == ["written", "unchanged", "written", "written"]
    assert bootstrap["versions"] == [0, 1, 0]
    assert bootstrap["targets"] == 2
    assert bootstrap["totals"] == [{"1": 2.5, "2": 1.0}, {"1": 2.5, "2": 7.5}]
    assert bootstrap["names"] == [{"1": "Ada", "2": "Bob"}, {"1": "Ada", "2": "Bob", "3": "Cy"}]
    assert bootstrap["latest"] is True
    assert bootstrap["views"] == []


def test_a_check_that_fails_is_in_the_report(found: dict[str, Any]) -> None:
    assert "enough customers: 2 rows, at least 3 expected" in found["bootstrap"]["failed"]
    assert found["bootstrap"]["report"] == "failed"


@pytest.mark.parametrize("table", ["vectors", "mapped"])
def test_deleted_rows_and_mapped_columns_are_read_without_spark(found: dict[str, Any], table: str) -> None:
    assert found["features"][table] == {"0": 0, "1": 10, "3": 30}
