"""Skeletons of descriptions: fields of inner classes for the object around them, and classes that only values name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from stateproc.cli import main
from stateproc.model.operator import Operator
from stateproc.readers.state_descriptor import TIMER_PREFIX
from stateproc.verification.class_mentions import Readability, class_skeleton, mentioned_classes, open_uses
from tests.helpers.cases import CASE_SOURCES, CaseSnapshot, ExpectedState, case_snapshots

CART = "com.acme.lab.Case31$Cart"
OF_CASES = [item for item in case_snapshots() if item.case not in ("claimed-native-savepoint", "flinkx", "pyflink")]
INNER = [item for item in OF_CASES if item.case == "outer-instances"]
NESTED = [item for item in OF_CASES if item.case == "scala-kryo" and "/plain/" in item.path]


def _skeleton(snapshot: CaseSnapshot, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["classes", snapshot.path, "--skeleton"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def _completed(skeleton: dict[str, Any], case: str, classes: str) -> dict[str, Any]:
    """Replace the placeholder by the fields of the class, and keep what the skeleton has besides."""
    known = json.loads((CASE_SOURCES / case / classes).read_text(encoding="utf-8"))
    kept = {
        name: {field: type_ for field, type_ in own.items() if field != "fieldName"} for name, own in skeleton.items()
    }
    return {**known, **{name: {**known[name], **own} for name, own in kept.items()}}


def _read(state: ExpectedState, classes: dict[str, Any]) -> list[dict[str, Any]]:
    options = state.options | {"classes": json.dumps(classes)}
    return list(state.state(state.snapshot.open(**options)).to_arrow().to_pylist())


@pytest.mark.parametrize("snapshot", INNER, ids=str)
def test_inner_classes_of_java(snapshot: CaseSnapshot, capsys: pytest.CaptureFixture[str]) -> None:
    """The skeleton has the object around them; completed it reads values with and without."""
    skeleton = _skeleton(snapshot, capsys)
    assert skeleton == {f"{CART}${name}": {"fieldName": "type", "this$0": CART} for name in ("Line", "Note")}
    classes = _completed(skeleton, "outer-instances", "classes.json")
    for state in snapshot.states():
        if "timers" in state.name or state.name == "zz-later":
            continue
        rows = _read(state, classes)
        written = "with-scala" in snapshot.path
        assert ('"this$0": null' in json.dumps(rows)) != written
        if written:
            assert state.differences(rows) == []


@pytest.mark.parametrize("snapshot", NESTED, ids=str)
def test_nested_classes_of_a_job_with_types_of_scala(
    snapshot: CaseSnapshot, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scala's name of the field; where the class is static, the field is null as JSON, or it is removed."""
    skeleton = _skeleton(snapshot, capsys)
    assert skeleton["com.acme.lab.Case01$Visit"] == {"fieldName": "type", "$outer": "com.acme.lab.Case01"}
    (state,) = (item for item in snapshot.states() if item.name == "visit")
    without = _completed({}, "scala-kryo", "classes-scala.json")
    with_outer = _completed(skeleton, "scala-kryo", "classes-scala.json")
    assert state.differences(_read(state, without)) == []
    rows = _read(state, with_outer)
    assert {row["value"].pop("$outer") for row in rows} == {"null"}
    assert state.differences(rows) == []


def _in_need(operators: list[Operator]) -> Iterator[tuple[str, str]]:
    """Yield operators and states of which `classes` says that something is, or may be, needed.

    It names the timers of each service; `verify` names all of a time domain.
    """
    needy = [item for item in mentioned_classes(operators) if item.readability is not Readability.READABLE]
    for use in (*(use for item in needy for use in item.uses), *open_uses(operators)):
        domain = use.state.removeprefix(TIMER_PREFIX).partition("_")[0]
        yield use.operator, f"{domain} timers" if use.state.startswith(TIMER_PREFIX) else use.state


@pytest.mark.parametrize("snapshot", OF_CASES, ids=str)
def test_classes_names_the_states_that_need_a_description(
    snapshot: CaseSnapshot, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of states that `verify` cannot read without a description, `classes` does not say that they need none."""
    opened = snapshot.open()
    operators = list(opened.operators)
    named = class_skeleton(mentioned_classes(operators))
    said, verified = set(_in_need(operators)), opened.verify()
    for problem in verified.problems:
        if "describe it" in problem.advice and "states cannot be found" not in problem.what:
            assert {(problem.operator, state) for state in problem.states} <= said, problem
    assert main(["classes", snapshot.path, "--uids", ",".join(snapshot.uids)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    if verified.skeleton:
        assert "all states are of types of Java, Scala and Flink" not in shown
    if verified.skeleton.keys() - named.keys():
        assert "stateproc verify finds those" in shown
