"""Wrong descriptions, ids and serializers are errors, or change no value; what the bytes do not show is listed here.

Every state of every case, and of the fixtures with values of Kryo, is read under every description of
`wrong_descriptions`. Rows may then have JSON text in place of columns: what is compared are the values in them, each
with the names of its fields.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from stateproc.codec.kryo import classes as kryo_classes
from stateproc.codec.kryo.classes import CHILL_IDS
from stateproc.codec.layouts import Layout
from stateproc.errors import SnapshotError
from stateproc.model.state import State as StateView
from stateproc.readers.state_descriptor import StateDescriptor
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.advice import DAMAGED
from tests.helpers.cases import ExpectedState, compared_states
from tests.helpers.fixtures import CLASSES, Fixture, fixtures

# Make descriptions of classes that are incomplete or wrong, as users write them.


Descriptions = Mapping[str, Any]

_MARKS = ("record ", "final ", "class ", "generic ", "open ")
_OTHER_TYPES = {"int": "String", "long": "int", "String": "long", "double": "String", "boolean": "String"}


def wrong_descriptions(right: Descriptions, heading: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is wrong, and descriptions that differ in it: a field, type or mark of the class of one heading."""
    body = right[heading]
    others = without(right, heading)
    for changed in _other_headings(heading):
        yield f"{changed!r} for {heading!r}", {**others, changed: body}
    for what, other in _other_bodies(body):
        yield f"{heading}: {what}", {**others, heading: other}


def without(right: Descriptions, heading: str) -> dict[str, Any]:
    """Return the descriptions without that of one heading."""
    return {name: own for name, own in right.items() if name != heading}


def _other_headings(heading: str) -> Iterator[str]:
    """Yield the heading without one of its marks, and with marks that it has not."""
    plain = heading
    for mark in _MARKS:
        if plain.startswith(mark):
            plain = plain.removeprefix(mark)
            yield plain
    for word in (" extends ", " implements "):
        own, found, _ = heading.partition(word)
        if found:
            yield own
    for mark in ("record ", "final "):
        if not heading.startswith(mark):
            yield mark + plain


def _other_bodies(body: Any) -> Iterator[tuple[str, Any]]:
    """Yield the body with a field less, more, of another type, or exchanged; with fewer constants; as fields."""
    if isinstance(body, dict):
        for name, type_ in body.items():
            yield f"no field {name}", {own: it for own, it in body.items() if own != name}
            yield f"{name} of another type", {**body, name: _OTHER_TYPES.get(type_, "int")}
        for one, other in pairwise(body):
            if body[one] != body[other]:
                yield f"{one} and {other} exchanged", {**body, one: body[other], other: body[one]}
        yield "a field more", {**body, "zz": "String"}
        yield "a map", "map<String, Object>"
    elif isinstance(body, list):
        yield "no last constant", body[:-1]
        yield "fields for constants", {"a": "int"}
    else:
        yield "fields for what it holds", {"a": "int"}
        if "|" in body:
            yield "one class less", " | ".join(part.strip() for part in body.split("|")[:-1])


NAMES_OF_CLASSES = ("class", "type")
"""Fields of rows that name the class of a value."""
NAMED_BY_DESCRIPTIONS = ("flinkx",)
"""Cases of which only descriptions name the fields, that are _1, _2 … without."""
FIXTURES_OF_KRYO = [
    f"{release}/edges-{kind}"
    for release in ("1.20", "2.3")
    for kind in ("hashmap-canonical", "hashmap-checkpoint", "rocksdb-canonical")
]
"""The fixtures that are no cases and have values of Kryo."""
UNDETECTABLE = {
    r"Case04\$Holder: id of another type": "a String that occurred before is a reference: one byte, as is a small long",
    r"Case11\$Noted: (text|about) of another type": "null is the byte of 0",
    r"Case11\$Kind: fields for constants": "the constant's number is one byte, as is a small int",
    r"C07\$Cat: indoor of another type": "a boolean is the byte of a String's length: 0 is null, 1 is empty",
    r"Case02\$Profile: no field \w+": "its serializer writes names of fields, so that others may be left out",
}
"""What descriptions may say wrongly without an error, and why the bytes are the same."""


@dataclass(frozen=True)
class FixtureState:
    """A state of a fixture that is no case, under the descriptions of its job."""

    snapshot: Fixture
    uid: str
    name: str
    case = "fixture"

    def __str__(self) -> str:
        return f"{self.snapshot.name}/{self.name}"

    @property
    def options(self) -> dict[str, Any]:
        return {}

    def state(self, opened: Snapshot) -> StateView:
        return opened.operator(self.uid).state(self.name)


State = ExpectedState | FixtureState
Rows = list[dict[str, Any]] | SnapshotError


def _of_fixtures() -> Iterator[FixtureState]:
    """Yield the states of fixtures that have values of Kryo, or of classes that descriptions complete."""
    for fixture in (item for item in fixtures() if item.name in FIXTURES_OF_KRYO):
        for operator in fixture.open(classes=CLASSES).operators:
            for file in operator.keyed_files[:1]:
                for keyed in file.states:
                    if isinstance(keyed, StateDescriptor) and _has_kryo(keyed.value):
                        yield FixtureState(fixture, operator.display, keyed.name)


def _has_kryo(serializer: Serializer) -> bool:
    return isinstance(serializer, Kryo) or any(map(_has_kryo, serializer.nested))


def _descriptions(state: State) -> dict[str, Any]:
    if isinstance(state, FixtureState):
        return dict(CLASSES)
    found: dict[str, Any] = json.loads(Path(state.options["classes"]).read_text(encoding="utf-8"))
    return found


def _one_backend() -> list[ExpectedState]:
    """Return each state of each case once, of those that have descriptions."""
    found: dict[tuple[str, ...], ExpectedState] = {}
    for state in compared_states():
        if "classes" in state.options:
            contents = json.dumps(state.snapshot.entry.get("contents", {}), sort_keys=True)
            found.setdefault((state.case, contents, state.uid, state.name), state)
    return list(found.values())


def _by_snapshot() -> dict[str, list[State]]:
    """Return the states of each snapshot, which is opened once for all of them under each description."""
    found: dict[str, list[State]] = {}
    for state in (*_one_backend(), *_of_fixtures()):
        found.setdefault(f"{state.case}/{state.snapshot}", []).append(state)
    return found


SNAPSHOTS = _by_snapshot()


def _rows_of(states: list[State], descriptions: dict[str, Any]) -> list[Rows]:
    """Return the rows of states of one snapshot and case under descriptions, or the errors."""
    try:
        opened = states[0].snapshot.open(**states[0].options | {"classes": json.dumps(descriptions)})
    except SnapshotError as error:
        return [_checked(error)] * len(states)
    return [_rows(state, opened) for state in states]


def _rows(state: State, opened: Snapshot) -> Rows:
    try:
        return list(state.state(opened).to_arrow().to_pylist())
    except SnapshotError as error:
        return _checked(error)


def _checked(error: SnapshotError) -> SnapshotError:
    """Return the error, which calls no file damaged."""
    assert not DAMAGED.search(f"{error.message} {error.advice}"), f"{error.message}\n  → {error.advice}"
    assert error.advice
    return error


def _values(item: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the values in a row with the names of the fields that they are in; no names of classes and no nulls.

    JSON text counts as what it says, a list of pairs as a map; elements of a list are in one place.
    """
    if (isinstance(item, str) and item[:1] in ("{", "[", '"')) or item == "null":
        with suppress(ValueError):  # text that only looks like JSON
            item = json.loads(item)
    if isinstance(item, dict):
        for name, value in item.items():
            if name not in NAMES_OF_CLASSES:
                yield from _values(value, (*place, str(name)))
    elif isinstance(item, list | tuple) and item and all(_is_entry(part) for part in item):
        for key, value in item:
            yield from _values(value, (*place, str(key)))
    elif isinstance(item, list | tuple):
        for value in item:
            yield from _values(value, place)
    elif item is not None:
        yield place, str(item)


def _is_entry(item: Any) -> bool:
    """Whether it is an entry of a map whose keys are simple."""
    return isinstance(item, tuple) and len(item) == 2 and not isinstance(item[0], dict | list | tuple)


def _changed(state: State, rows: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    """Whether a row has another value, or one in another field, or null where there was one, or the other way round."""
    if state.case in NAMED_BY_DESCRIPTIONS:
        return [_ordered(row) for row in rows] != [_ordered(row) for row in right]
    return rows != right and [Counter(_values(row)) for row in rows] != [Counter(_values(row)) for row in right]


def _ordered(row: dict[str, Any]) -> list[str]:
    """Return the values in a row in the order of its fields."""
    return [value for _, value in _values(row)]


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_wrong_descriptions_are_errors_or_change_no_value(name: str) -> None:
    states = SNAPSHOTS[name]
    right = _descriptions(states[0])
    rows = _rows_of(states, right)
    for heading in right:
        lacking = _rows_of(states, without(right, heading))
        needing = [at for at, found in enumerate(lacking) if found != rows[at]]
        cases = [(f"without {heading}", [lacking[at] for at in needing])]
        if needing:
            of_them = [states[at] for at in needing]
            cases += [(what, _rows_of(of_them, other)) for what, other in wrong_descriptions(right, heading)]
        for what, found in cases:
            for at, others in zip(needing, found, strict=True):
                expected = rows[at]
                assert isinstance(expected, list)
                if isinstance(others, list) and _changed(states[at], others, expected):
                    place = (str(states[at]), what, expected[:3], others[:3])
                    assert any(re.search(pattern, what) for pattern in UNDETECTABLE), place


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("name", SNAPSHOTS)
def test_another_base_of_registrations_is_an_error_or_changes_no_value(
    name: str, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's registrations begin at another id, as they do where a class was registered before them."""
    states = SNAPSHOTS[name]
    right = _descriptions(states[0])
    rows = _rows_of(states, right)
    layout = Kryo.layout

    def shifted(self: Kryo, ctx: LayoutContext) -> Layout:
        known = self.registrations
        return layout(replace(self, registrations=known[1:] if shift < 0 else ("com.acme.Before", *known)), ctx)

    monkeypatch.setattr(Kryo, "layout", shifted)
    for state, expected, found in zip(states, rows, _rows_of(states, right), strict=True):
        assert isinstance(expected, list)
        same = isinstance(found, SnapshotError) or not _changed(state, found, expected)
        assert same, (str(state), expected[:3], found)


def test_ids_of_flink_scala_are_errors_where_it_is_taken_for_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [states for states in SNAPSHOTS.values() if states[0].case == "scala-kryo"]
    right = [_rows_of(states, _descriptions(states[0])) for states in groups]
    monkeypatch.setattr(kryo_classes, "CHILL_IDS", (None,) * len(CHILL_IDS))
    refused = 0
    for states, rows in zip(groups, right, strict=True):
        for state, expected, found in zip(states, rows, _rows_of(states, _descriptions(states[0])), strict=True):
            refused += isinstance(found, SnapshotError)
            assert isinstance(expected, list)
            same = isinstance(found, SnapshotError) or not _changed(state, found, expected)
            assert same, (str(state), expected[:3], found)
    assert refused


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        ({"key": 1, "value": {"a": 1, "b": None}}, False),
        ({"key": 1, "value": '{"class": "x.Y", "a": 1}'}, False),
        ({"key": 1, "value": {"a": None, "b": 1}}, True),
        ({"key": 1, "value": {"a": None, "b": None}}, True),
        ({"key": 1, "value": {"a": 1, "b": 0}}, True),
        ({"key": 1, "value": None}, True),
    ],
)
def test_values_that_move_or_disappear_are_changes(found: dict[str, Any], changed: bool) -> None:
    state = next(iter(SNAPSHOTS.values()))[0]
    assert _changed(state, [found] * 2, [{"key": 1, "value": {"a": 1, "b": None}}] * 2) is changed
