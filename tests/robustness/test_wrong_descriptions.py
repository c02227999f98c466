"""Heap snapshots read with descriptions that are wrong in one field: an error, or the right rows, never others.

Entries of native heap files have no lengths, and nothing in them says what a described class consists of.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot, InvalidOption, SnapshotError
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.snapshot.snapshot import Snapshot
from stateproc.verification.problem import Severity
from tests.helpers.cases import CASE_SOURCES, case_snapshots
from tests.helpers.fixtures import CLASSES, fixtures

TYPES = (
    *("boolean", "short", "int", "long", "double", "String", "Instant", "Date", "BigDecimal", "Object"),
    *("int[]", "long[]", "String[]", "List<Integer>", "List<Long>", "List<Boolean>", "List<String>"),
    *("Set<Integer>", "Set<String>", "Map<String, String>", "Map<Integer, String>", "ArrayList<Integer>"),
    *("List<List<Integer>>", "Collection<Integer>", "Set<? extends String>"),
)
# The values have as many bytes either way, and each byte is one that the other type can have.
SAME_BYTES = {
    "weight: Double → long",
    "flags: List<Boolean> → List<String>",  # an element 00 01: true, or a string without characters
    "flags: List<Boolean> → Set<String>",
    "names: Map<Integer, String> → List<Long>",  # a key and a string of three bytes
    "tags: Set<String> → Instant",  # 12 bytes
    "tags: Set<String> → List<Integer>",
}
_TRIED = 150
"""Wrong descriptions per class of a fixture."""


@dataclass(frozen=True)
class Described:
    """Snapshots with values of a class that only a description explains.

    Attributes:
        name: What it is called in tests.
        open: Opens it with class descriptions.
        uid: The operator.
        classes: The right descriptions.
        wrong: The class whose description is changed.
    """

    name: str
    open: Callable[..., Snapshot]
    uid: str
    classes: dict[str, Any]
    wrong: str

    def rows(self, classes: dict[str, Any]) -> dict[str, list[Any] | SnapshotError]:
        """Read all states; of each the rows or the error."""
        operator = self.open(classes=classes).operator(self.uid)
        return {state.name: _rows(operator.state(state.name)) for state in operator.keyed_states}


def _rows(state: Any) -> list[Any] | SnapshotError:
    try:
        return [_without_nulls(row) for row in state.to_arrow().to_pylist()]
    except SnapshotError as error:
        return error


def _without_nulls(value: Any) -> Any:
    """Leave out fields that are null: each described subclass adds its own."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _described() -> Iterator[Described]:
    for snapshot in case_snapshots():
        if snapshot.case == "extracted-collections":
            path = CASE_SOURCES / snapshot.case / "classes.json"
            for name in parse_classes(path):
                own = {name: {field: str(type_) for field, type_ in parse_classes(path)[name].fields}}
                yield Described(f"{snapshot}-{name}", snapshot.open, name[-1].lower(), own, name)
    for fixture in fixtures(backends=("hashmap",)):
        if fixture.name in ("1.20/edges-hashmap-checkpoint", "2.3/edges-hashmap-checkpoint"):
            for name in CLASSES:
                yield Described(f"{fixture.name}-{name}", fixture.open, "edges-generic", CLASSES, name)


def _changed(fields: dict[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Each description that is wrong in one field, and what is wrong."""
    for field, type_ in fields.items():
        yield f"without {field}", {name: text for name, text in fields.items() if name != field}
        short = type_.replace("java.util.", "").replace("java.lang.", "")
        yield from ((f"{field}: {short} → {other}", {**fields, field: other}) for other in TYPES if other != short)
    for new in ("a", "m", "zz"):
        yield from ((f"{new}: {other}", {**fields, new: other}) for other in TYPES)


@pytest.mark.parametrize("described", list(_described()), ids=lambda described: described.name)
def test_a_wrong_description_is_an_error_or_does_no_harm(described: Described) -> None:
    right = described.rows(described.classes)
    changes = list(_changed(described.classes[described.wrong]))
    errors = 0
    for what, fields in random.Random(27).sample(changes, min(_TRIED, len(changes))):
        for state, found in described.rows({**described.classes, described.wrong: fields}).items():
            if isinstance(found, SnapshotError):
                errors += 1
                assert not isinstance(found, CorruptSnapshot), (what, state, str(found))
            elif what not in SAME_BYTES:
                assert found == right[state], (what, state)
    assert errors > 50


def test_the_error_names_the_classes_and_what_to_check() -> None:
    described = next(_described())
    fields = {**described.classes[described.wrong], "zz": "int"}
    error = described.rows({described.wrong: fields})["event"]
    assert isinstance(error, InvalidOption)
    assert f"the bytes do not fit the description of '{described.wrong}'" in error.message
    assert "a List is no ArrayList" in str(error.advice)
    assert (error.where.state, error.where.offset is not None) == ("event", True)


def test_verify_reports_each_state_that_a_wrong_description_concerns() -> None:
    found = [described for described in _described() if described.name.startswith("extracted")]
    wrong = {item.wrong: {**item.classes[item.wrong], "zz": "int"} for item in found}
    report = found[0].open(classes=wrong).verify()
    assert {(problem.operator, problem.severity) for problem in report.problems} == {
        (item.uid, Severity.UNREADABLE) for item in found
    }
    right = {name: item.classes[name] for item in found for name in item.classes}
    assert found[0].open(classes=right).verify().is_intact
