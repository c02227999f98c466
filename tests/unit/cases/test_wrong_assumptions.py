"""Wrong descriptions, ids and serializers are errors, or change no value; what the bytes do not show is listed here.

Every state of every case is read under every description of `tests.helpers.wrong_descriptions`. Rows may then have
other names of fields, or JSON text in place of columns: what is compared are the values in them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stateproc.codec.kryo import classes as kryo_classes
from stateproc.codec.kryo.classes import CHILL_IDS
from stateproc.codec.layouts import Layout
from stateproc.errors import SnapshotError
from stateproc.serializers import LayoutContext
from stateproc.serializers.kryo.serializer import Kryo
from tests.helpers.advice import DAMAGED
from tests.helpers.cases import ExpectedState, compared_states
from tests.helpers.wrong_descriptions import wrong_descriptions

NAMES_OF_CLASSES = ("class", "type")
"""Fields of rows that name the class of a value."""
UNDETECTABLE = {
    r"Case04\$Holder: id of another type": "a String that occurred before is a reference: one byte, as is a small long",
    r"Case11\$Noted: (text|about) of another type": "null is the byte of 0",
    r"Case11\$Kind: fields for constants": "the constant's number is one byte, as is a small int",
    r"C07\$Cat: indoor of another type": "a boolean is the byte of a String's length: 0 is null, 1 is empty",
    r"Case02\$Profile: no field \w+": "its serializer writes names of fields, so that others may be left out",
}
"""What descriptions may say wrongly without an error, and why the bytes are the same."""


def _one_backend() -> list[ExpectedState]:
    """Return each state of each case once, of those that have descriptions."""
    found: dict[tuple[str, ...], ExpectedState] = {}
    for state in compared_states():
        if "classes" in state.options:
            contents = json.dumps(state.snapshot.entry.get("contents", {}), sort_keys=True)
            found.setdefault((state.case, contents, state.uid, state.name), state)
    return list(found.values())


def _rows(state: ExpectedState, descriptions: dict[str, Any]) -> list[dict[str, Any]] | SnapshotError:
    """Return the rows under descriptions, or the error, which calls no file damaged."""
    try:
        opened = state.snapshot.open(**state.options | {"classes": json.dumps(descriptions)})
        return list(state.state(opened).to_arrow().to_pylist())
    except SnapshotError as error:
        assert not DAMAGED.search(f"{error.message} {error.advice}"), f"{error.message}\n  → {error.advice}"
        assert error.advice
        return error


def _values(item: Any) -> Iterator[str]:
    """Yield what is in a row, without names of fields and classes, nulls, and the structure."""
    if (isinstance(item, str) and item[:1] in ("{", "[", '"')) or item == "null":
        with suppress(ValueError):  # text that only looks like JSON
            item = json.loads(item)
    if isinstance(item, dict):
        for name, value in item.items():
            if name not in NAMES_OF_CLASSES:
                yield from _values(value)
    elif isinstance(item, list | tuple):
        for value in item:
            yield from _values(value)
    elif item is not None:
        yield str(item)


def _changed(rows: list[dict[str, Any]], right: list[dict[str, Any]]) -> bool:
    return rows != right and [Counter(_values(row)) for row in rows] != [Counter(_values(row)) for row in right]


@pytest.mark.parametrize("state", _one_backend(), ids=str)
def test_wrong_descriptions_are_errors_or_change_no_value(state: ExpectedState) -> None:
    right = json.loads(Path(state.options["classes"]).read_text(encoding="utf-8"))
    rows = _rows(state, right)
    assert isinstance(rows, list)
    needed = {name for name in right if _rows(state, {h: own for h, own in right.items() if h != name}) != rows}
    for what, descriptions in wrong_descriptions({h: right[h] for h in right if h in needed}):
        others = {h: own for h, own in right.items() if h not in needed}
        found = _rows(state, others | descriptions)
        if isinstance(found, list) and _changed(found, rows):
            assert any(re.search(pattern, what) for pattern in UNDETECTABLE), (what, rows[:3], found[:3])


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("state", _one_backend(), ids=str)
def test_another_base_of_registrations_is_an_error_or_changes_no_value(
    state: ExpectedState, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job's registrations begin at another id, as they do where a class was registered before them."""
    right = json.loads(Path(state.options["classes"]).read_text(encoding="utf-8"))
    rows = _rows(state, right)
    layout = Kryo.layout

    def shifted(self: Kryo, ctx: LayoutContext) -> Layout:
        known = self.registrations
        return layout(replace(self, registrations=known[1:] if shift < 0 else ("com.acme.Before", *known)), ctx)

    monkeypatch.setattr(Kryo, "layout", shifted)
    found = _rows(state, right)
    assert isinstance(rows, list)
    assert isinstance(found, SnapshotError) or not _changed(found, rows), (rows[:3], found[:3])


def test_ids_of_flink_scala_are_errors_where_it_is_taken_for_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [state for state in _one_backend() if state.case == "scala-kryo"]
    descriptions = [json.loads(Path(state.options["classes"]).read_text(encoding="utf-8")) for state in states]
    right = [_rows(state, own) for state, own in zip(states, descriptions, strict=True)]
    monkeypatch.setattr(kryo_classes, "CHILL_IDS", (None,) * len(CHILL_IDS))
    refused = 0
    for state, own, rows in zip(states, descriptions, right, strict=True):
        found = _rows(state, own)
        assert isinstance(rows, list)
        refused += isinstance(found, SnapshotError)
        assert isinstance(found, SnapshotError) or not _changed(found, rows), (str(state), rows[:3], found[:3])
    assert refused
