"""Selection of an operator and its states, common to Spark, the command line and Python."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.errors import InvalidOption, NotFound, SnapshotError
from stateproc.options import Interface
from stateproc.snapshot.opening import open
from stateproc.snapshot.selection import StateSelection, operator_choice, select_operator, select_state, state_choice
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.paths import FIXTURES

DEMO = str(FIXTURES / "1.20" / "demo" / "snapshot")
UID = "orders-per-customer"


@pytest.fixture(scope="module")
def demo() -> Snapshot:
    return open(DEMO)


def _selected(snapshot: Snapshot, single: bool = False, interface: Interface = Interface.CLI, **values: Any) -> str:
    selection = StateSelection.of(values, interface)
    return select_state(select_operator(snapshot, selection), selection, single=single).name


def test_states_are_selected_by_name(demo: Snapshot) -> None:
    assert _selected(demo, uid=UID, state="profile") == "profile"
    assert _selected(demo, uid=UID) == UID


def test_an_unknown_state_is_reported_before_a_missing_operator(demo: Snapshot) -> None:
    with pytest.raises(NotFound) as caught:
        _selected(demo, uid=UID, state="profle")
    assert caught.value.message == f"no state 'profle' in operator '{UID}'"
    assert caught.value.advice == "did you mean 'profile'?"
    with pytest.raises(NotFound) as caught:
        _selected(demo, uid=UID, operator_state="profle")
    assert caught.value.message == f"no operator state 'profle' in operator '{UID}'"
    with pytest.raises(NotFound) as caught:
        demo.operator(UID).timers("idle")
    assert caught.value.message == f"no timers 'idle' in operator '{UID}'"


def test_an_operator_must_be_specified_if_several_have_states(demo: Snapshot) -> None:
    with pytest.raises(InvalidOption) as caught:
        select_operator(demo, StateSelection(interface=Interface.CLI))
    assert caught.value.message == "which operator?"
    advice = caught.value.advice or ""
    assert advice.startswith("--uid or --uid-hash; available:\n      --uid-hash ")
    assert "profile" in advice


@pytest.mark.parametrize(
    ("values", "interface", "message"),
    [
        ({"uid": "a", "uid_hash": "b"}, Interface.CLI, "options --uid and --uid-hash exclude each other"),
        ({"uid": "a", "state": "s", "operator_state": "t"}, Interface.SPARK, "options state and operatorState exclude"),
        ({"uid": "a", "state": "s", "namespace": "n"}, Interface.SPARK, "option namespace does not go with state"),
        ({"timers": "event"}, Interface.SPARK, "option timers needs an operator"),
    ],
)
def test_contradictory_options_are_refused(values: dict[str, str], interface: Interface, message: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        StateSelection.of(values, interface)
    assert message in caught.value.message


def test_errors_spell_options_like_the_interface(demo: Snapshot) -> None:
    operator = next(item for item in demo.operators if any(state.name == "profile" for state in item.states))
    profile = operator.state("profile")
    assert state_choice(profile, Interface.CLI) == "--state profile"
    assert state_choice(profile, Interface.SPARK) == "state='profile'"
    label = operator_choice(operator, Interface.CLI)
    assert label.startswith(f"--uid-hash {operator.operator_id}  (")


def test_the_only_state_is_selected_by_default(demo: Snapshot) -> None:
    for operator in demo.operators:
        if not operator.states:
            continue
        selection = StateSelection(uid_hash=operator.operator_id)
        try:
            expected = operator.states[0].name if len(operator.states) == 1 else operator.wide().name
        except SnapshotError:
            continue
        assert select_state(operator, selection, single=True).name == expected


def test_looking_up_an_operator_does_not_change_its_name(demo: Snapshot) -> None:
    before = [(operator.uid, operator.display) for operator in demo.operators]
    found = demo.operator(UID)
    assert (found.uid, found.display) == (UID, UID)
    assert demo.operator(UID) is found
    assert [(operator.uid, operator.display) for operator in demo.operators] == before
    assert demo.operator(found.operator_id).uid is None
