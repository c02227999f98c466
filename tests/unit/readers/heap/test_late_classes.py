"""Classes that no header lists and that first appear after the part of a native heap file that planning walks."""

from __future__ import annotations

from functools import partial

import pytest

from stateproc import UnreadableStateWarning, UnsupportedSnapshot
from stateproc.model.operator import Operator
from stateproc.readers.heap import reader as splits
from stateproc.readers.heap.unreadable_states import unreadable_states
from tests.helpers.fixtures import CLASSES, fixtures

GENERIC = {"fixtures.Edges$Generic": CLASSES["fixtures.Edges$Generic"]}
FIXTURE = next(item for item in fixtures() if item.name == "1.20/edges-hashmap-checkpoint")


def operator_of(**options: str) -> Operator:
    """The operator of animals, of which dogs are unknown."""
    return FIXTURE.open(classes=GENERIC, **options).operator("edges-generic")


@pytest.fixture
def short_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning walks the first 16 bytes of a file only."""
    monkeypatch.setattr(splits, "unreadable_states", partial(unreadable_states, probe_bytes=16))


@pytest.mark.parametrize("name", ["animal", "basket"])
@pytest.mark.usefixtures("short_probe")
def test_a_task_fails_with_the_error_that_planning_would_have_raised(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = operator_of().state(name)
    assert state.problem is None
    with pytest.raises(UnsupportedSnapshot) as late:
        for split in state.splits():
            for _ in split.read():
                pass
    monkeypatch.undo()
    with pytest.raises(UnsupportedSnapshot) as planned:
        operator_of().state(name).splits()
    assert (late.value.message, late.value.advice) == (planned.value.message, planned.value.advice)
    assert late.value.where.file == planned.value.where.file
    assert "describe it: classes={'fixtures.Edges$Dog'" in (late.value.advice or "")


@pytest.mark.usefixtures("short_probe")
def test_null_is_planned_for_the_whole_file() -> None:
    operator = operator_of(on_error="null")
    hidden = {state.name for state in operator.keyed_states if state.problem is not None}
    assert hidden >= {"animal", "basket"}
    readable = [state.name for state in operator.keyed_states if state.name not in hidden]
    if not readable:
        with pytest.raises(UnsupportedSnapshot):
            operator.wide()
        return
    with pytest.warns(UnreadableStateWarning):
        table = operator.wide().to_arrow()
    assert all(table[name].null_count == len(table) for name in hidden)
