"""The states that a job declares, written by a person or from a snapshot."""

from __future__ import annotations

import re
from typing import Any

import pytest

import stateproc
from stateproc.compatibility.check import check_snapshot
from stateproc.compatibility.declared_job import declared_operators
from stateproc.compatibility.expected_job import expectation, expected_operators, type_text
from stateproc.compatibility.verdicts import Verdict
from stateproc.errors import InvalidOption
from stateproc.flink_versions import DEFAULT
from stateproc.jobs.job_document import parse_document
from stateproc.serializers.compatibility import Comparison, resolve
from stateproc.types.text import parse
from tests.helpers.fixtures import fixtures
from tests.helpers.paths import FIXTURES
from tests.helpers.recorded_compatibility import recorded_pairs

DEMO = str(FIXTURES / "1.20/demo/snapshot")
UID = "orders-per-customer"
SPENT = {"name": "spent-per-product", "kind": "map", "map_key": "String", "value": "Double"}
PROFILE = {"name": "profile", "kind": "value"}


def verdicts(*states: dict[str, Any], **operator: Any) -> dict[str, Verdict]:
    """The verdicts on the demo's operator in a job that declares these states."""
    job = {"operators": [{"uid": UID, "states": list(states), **operator}]}
    check = stateproc.open(DEMO, uids=[UID]).check(expect=job)
    return {state.name: state.verdict for item, state in check.states if item.uid == UID and "timers" not in state.name}


def test_what_describe_writes_is_what_the_job_declares() -> None:
    """Of every fixture, read back as YAML: its states are as they were."""
    for fixture in fixtures():
        snapshot = fixture.open()
        text = expectation(declared_operators(snapshot))
        declared = expected_operators(parse_document(text).value) if ":\n  -" in text else ()
        check = check_snapshot(snapshot, flink_version="2.3" if snapshot.options.kryo == 5 else "1.20", expect=declared)
        assert [state.name for _, state in check.states if not state.is_right] == [], fixture.name


def test_types_are_written_as_they_are_read() -> None:
    named = 0
    for pair in recorded_pairs():
        if (pair.old_release, pair.new_release, pair.avro) == ("1.20", "1.20", True):
            text = type_text(pair.old)
            if text is not None:
                assert resolve(parse(text), pair.old, Comparison(2, DEFAULT)).answer <= 1, pair.name
                named += 1
    assert named > 320


def test_a_job_as_it_is() -> None:
    assert verdicts(PROFILE, SPENT, key="Long") == {"profile": Verdict.AS_IS, "spent-per-product": Verdict.AS_IS}


def test_changes_of_a_job() -> None:
    other = {"name": "new", "kind": "value", "value": "Long"}
    found = verdicts({**SPENT, "value": "Float"}, other, key="Long")
    assert found == {"profile": Verdict.DROPPED, "spent-per-product": Verdict.REFUSED, "new": Verdict.STARTS_EMPTY}
    assert set(verdicts(PROFILE, SPENT, key="Integer").values()) == {Verdict.REFUSED}
    assert set(verdicts(PROFILE, SPENT, max_parallelism=64).values()) == {Verdict.REFUSED}
    assert set(verdicts(PROFILE, SPENT, parallelism=129).values()) == {Verdict.REFUSED}
    assert verdicts(PROFILE, {**SPENT, "ttl": True})["spent-per-product"] is Verdict.REFUSED


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        ([], "the states of a job are not a list of operators"),
        ({"operators": [{}]}, "operators[0]: an operator needs either its uid or its id"),
        ({"operators": [{"id": "12"}]}, "operators[0].id: '12' is no uid hash"),
        ({"operators": [{"uid": "a", "kye": "Long"}]}, "operators[0].kye: there is no 'kye' here"),
        ({"operators": [{"uid": "a", "key": "Lnog"}]}, "operators[0].key: "),
        ({"operators": [{"uid": "a", "parallelism": 0}]}, "operators[0].parallelism: 0 is no number of subtasks"),
        ({"operators": [{"uid": "a", "states": [{"kind": "value"}]}]}, "operators[0].states[0]: a state needs a name"),
        (
            {"operators": [{"uid": "a", "states": [{"name": "x", "kind": "mop"}]}]},
            "operators[0].states[0]: 'mop' is no kind of keyed state",
        ),
        (
            {"operators": [{"uid": "a", "states": [{"name": "x", "kind": "list", "value": "Long"}]}]},
            "operators[0].states[0].value: a list state has no value",
        ),
    ],
)
def test_mistakes_name_their_place(job: Any, problem: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(problem)):
        expected_operators(job)
