"""The advice of errors leads somewhere: to the values, or to another, final sentence; never in a circle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.verification.class_mentions import class_skeleton, mentioned_classes
from tests.helpers.advice import Circle, follow
from tests.helpers.cases import CaseSnapshot, ExpectedState, case_snapshots
from tests.helpers.fixtures import CLASSES, Fixture, arrow_rows, fixtures, unknown_type_fixtures

_ADVISED = ("classes", "opaque", "on_error", "allowed_roots")
"""Options that errors advise to give."""
STATES = [state for snapshot in case_snapshots() for state in snapshot.states()]


def _descriptions(options: dict[str, Any]) -> dict[str, Any]:
    path = options.get("classes")
    found: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    return found


@pytest.mark.parametrize("expected", STATES, ids=str)
def test_advice_leads_to_the_values_or_to_a_final_sentence(expected: ExpectedState) -> None:
    options = expected.options
    begun = {name: value for name, value in options.items() if name not in _ADVISED}
    if expected.snapshot.manifest.get("classes_only_name") or expected.rules.get("classes_only_name"):
        begun["classes"] = json.dumps(_descriptions(options))

    def read(given: dict[str, Any]) -> list[dict[str, Any]]:
        return list(expected.state(expected.snapshot.open(**given)).to_arrow().to_pylist())

    found = follow(read, _descriptions(options), begun)
    if expected.refusal is not None or "elsewhere" in expected.rules:
        return
    assert found.error is None, "\n".join(found.steps)
    if not {"opaque", "on_error"} & found.options.keys():
        assert expected.differences(found.rows or []) == []


NEED_CLASSES = [
    item for item in case_snapshots() if "classes" in item.options and not item.manifest.get("classes_only_name")
]


@pytest.mark.parametrize("snapshot", NEED_CLASSES, ids=str)
def test_the_skeleton_and_what_errors_name_are_all_classes_that_states_need(snapshot: CaseSnapshot) -> None:
    described = _descriptions(snapshot.options)
    skeleton = class_skeleton(mentioned_classes(list(snapshot.open().operators)))
    completed = {name: body for name, body in described.items() if name.split()[-1] in skeleton or name in skeleton}
    begun = snapshot.options | {"classes": json.dumps(completed)}
    for expected in snapshot.states():
        if (
            expected.refusal is None
            and "elsewhere" not in expected.rules
            and "classes" not in expected.rules.get("options", {})
        ):

            def read(given: dict[str, Any], expected: ExpectedState = expected) -> list[dict[str, Any]]:
                return list(expected.state(snapshot.open(**given)).to_arrow().to_pylist())

            found = follow(read, described, begun)
            assert found.error is None, "\n".join(found.steps)
            assert expected.differences(found.rows or []) == [], (str(expected), sorted(completed))


@pytest.mark.parametrize("fixture", fixtures() + unknown_type_fixtures(), ids=lambda fixture: fixture.name)
def test_no_fixture_leads_in_a_circle(fixture: Fixture) -> None:
    unread = [state for state in fixture.open().states if state.problem is not None]
    for number, state in enumerate(fixture.open().states):
        if state.name not in {item.name for item in unread}:
            continue

        def read(given: dict[str, Any], number: int = number) -> list[dict[str, Any]]:
            snapshot = fixture.open(**given)
            return arrow_rows(snapshot, snapshot.states[number])

        follow(read, CLASSES)


def test_a_circle_is_found() -> None:
    def read(given: dict[str, Any]) -> list[dict[str, Any]]:
        raise UnsupportedSnapshot("no fields", advice='describe it: classes={"a.B": {…}}')

    with pytest.raises(Circle, match="led back"):
        follow(read, {"a.B": {"x": "int"}})
    assert isinstance(follow(read, {}).error, SnapshotError)


def test_damage_is_not_blamed_on_an_intact_file() -> None:
    def read(given: dict[str, Any]) -> list[dict[str, Any]]:
        raise UnsupportedSnapshot("bytes are left", advice="the file is damaged")

    with pytest.raises(Circle, match="called damaged"):
        follow(read, {})
