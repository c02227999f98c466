"""Jobs over Delta tables, and copies of states in them.

A version of a table is bootstrapped once, checks decide, the pointer follows. Copies are equal to the state and have
each change once, whatever is repeated or deleted.
"""

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
    program = [sys.executable, "-m", "tests.helpers.spark.delta_cases", str(folder)]
    done = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return result


def test_a_copy_is_equal_to_the_state_at_each_checkpoint(found: dict[str, Any]) -> None:
    chain = found["chain"]
    assert {name for name, value in chain.items() if value is False} == set()
    assert chain["totals rows"] > 1 and chain["entries rows"] > 1


def test_the_last_change_of_a_row_counts(found: dict[str, Any]) -> None:
    merged = found["merged"]
    assert merged["rows"] == {"a": [3, 3], "c": [9, 3]}


def test_batches_that_are_repeated_write_nothing(found: dict[str, Any]) -> None:
    merged = found["merged"]
    assert merged["repeated"] == [merged["rows"], merged["commits"]]
    assert merged["empty"] == merged["commits"]
    assert merged["setting"] == "-1"


def test_a_reset_replaces_what_is_older(found: dict[str, Any]) -> None:
    assert found["merged"]["reset"] == {"c": [7, 5], "e": [1, 6]}


def test_rows_of_an_earlier_stream_are_not_mixed_with_those_of_another(found: dict[str, Any]) -> None:
    refused = found["refused"]
    assert "the table has rows of checkpoint 4, and this stream begins at 8" in refused["another stream"]
    assert 'option("startingCheckpoint", "4")' in refused["another stream"]
    assert refused["continued"] == {"a": [1, 4], "b": [1, 8]}


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("no feed", "the batch has no column _change_type: it is not a change feed"),
        ("no key", "the rows of this state have no key"),
        ("unknown key", "the feed has no column kee"),
    ],
)
def test_batches_that_do_not_fit_are_refused(found: dict[str, Any], case: str, says: str) -> None:
    assert says in found["refused"][case]


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
