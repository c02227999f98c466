"""Enclosing objects of inner classes in Kryo: one description for values with and without, errors that name them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateproc.errors import SnapshotError
from tests.helpers.cases import CASE_SOURCES, ExpectedState, case_snapshots

_FOLDER = CASE_SOURCES / "outer-instances"
STATES = [item for snapshot in case_snapshots() if snapshot.case == "outer-instances" for item in snapshot.states()]
WRITTEN = [item for item in STATES if "with-scala" in item.snapshot.path and item.name != "zz-later"]


def _rows(expected: ExpectedState, classes: dict[str, Any]) -> list[dict[str, Any]]:
    return list(expected.state(expected.snapshot.open(classes=classes)).to_arrow().to_pylist())


def _classes(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_FOLDER / name).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("expected", STATES, ids=str)
def test_one_description_reads_values_with_and_without_the_enclosing_object(expected: ExpectedState) -> None:
    rows = _rows(expected, _classes("classes-outer.json"))
    text = json.dumps(rows)
    assert ('"this$0": null' in text) == ("bare" in expected.snapshot.path and expected.name != "zz-later")
    if "with-scala" in expected.snapshot.path:
        assert expected.differences(rows) == []


@pytest.mark.parametrize("expected", WRITTEN, ids=str)
def test_an_error_names_the_enclosing_object_that_a_description_leaves_out(expected: ExpectedState) -> None:
    with pytest.raises(SnapshotError) as raised:
        _rows(expected, _classes("classes.json"))
    assert '"this$0": "com.acme.lab.Case31$Cart"' in str(raised.value.advice)
