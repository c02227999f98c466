"""Descriptions of classes as no friend would write them: an answer that helps, soon and in little memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import stateproc
from stateproc.errors import InvalidOption, SnapshotError, UnsupportedSnapshot
from stateproc.serializers import LayoutContext, Undecodable
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import described_pojo
from tests.helpers.damage.child_processes import run_cases
from tests.helpers.paths import FIXTURES

EDGES = FIXTURES / "1.20/edges-hashmap-canonical/snapshot"
WIDE = 40
DOUBLING = {f"a.C{level}": {"x": f"a.C{level + 1}", "y": f"a.C{level + 1}"} for level in range(WIDE)} | {
    f"a.C{WIDE}": {"n": "int"}
}
"""Each class holds two of the next: 2 ** 40 fields in the first."""

REFUSED: dict[str, Any] = {
    "json nested without end": '{"a.B": ' + "[" * 200_000,
    "json that is no json": "{a.B: int}",
    "a list": "[1, 2]",
    "a path that is none": "/no/such/file.json",
    "a directory": "/",
    "a NUL in a path": "a\0b",
    "a number for a body": {"a.B": 7},
    "null for a body": {"a.B": None},
    "fields without types": {"a.B": {"x": None}},
    "fields with objects for types": {"a.B": {"x": {"y": "int"}}},
    "an empty list": {"a.B": []},
    "constants that are no text": {"a.B": [1, 2]},
    "a constant twice": {"a.B": ["X", "X"]},
    "a class without a name": {"": {"x": "int"}},
    "a primitive for a class": {"int": {"x": "int"}},
    "a type nested without end": {"a.B": {"x": "list<" * 100_000 + "int" + ">" * 100_000}},
    "a type of a million dimensions": {"a.B": {"x": "int" + "[]" * 1_000_000}},
    "a million modifiers": {"a.B": {"x": "final " * 1_000_000}},
    "a million type arguments": {"a.B": {"x": "map<" + "int," * 1_000_000 + "int>"}},
    "a number": 7,
}


def _refusal(spec: Any) -> Callable[[], Any]:
    def run() -> None:
        with pytest.raises(InvalidOption) as caught:
            parse_classes(spec)
        assert caught.value.advice
        assert len(str(caught.value)) < 2000

    return run


def test_what_is_no_description_is_refused_with_advice() -> None:
    assert run_cases([(name, _refusal(spec)) for name, spec in REFUSED.items()], workers=1).failures == ()


def test_opening_says_so_before_anything_is_read() -> None:
    for spec in ("{", {"a.B": 7}, "/no/such/file.json"):
        with pytest.raises(InvalidOption) as caught:
            stateproc.open(str(EDGES), classes=spec)
        assert caught.value.advice


def _layout(spec: Any, name: str, kryo: int = 2) -> Callable[[], Any]:
    """The class as POJO and as Kryo value: a layout, or a typed error."""

    def run() -> None:
        classes = parse_classes(spec)
        context = LayoutContext(kryo=kryo, classes=classes)
        for make in (lambda: described_pojo(name, classes), lambda: Kryo(name, (name,))):
            try:
                serializer = make()
                assert serializer is not None
                _ = serializer.layout(context).arrow_type
            except (Undecodable, InvalidOption, UnsupportedSnapshot) as error:
                assert str(error)

    return run


HUGE: dict[str, tuple[Any, str]] = {
    "a class that holds itself": ({"a.B": {"next": "a.B", "n": "int"}}, "a.B"),
    "two that hold each other": ({"a.B": {"c": "a.C"}, "a.C": {"b": "a.B"}}, "a.B"),
    "a list of itself": ({"a.B": {"all": "list<a.B>", "by": "map<a.B, a.B>", "some": "a.B[]"}}, "a.B"),
    "two of the next, forty times": (DOUBLING, "a.C0"),
    "a thousand, one in the other": (
        {f"a.C{level}": {"x": f"a.C{level + 1}"} for level in range(1000)} | {"a.C1000": {"n": "int"}},
        "a.C0",
    ),
    "ten thousand classes": ({f"a.C{n}": {"x": "int", f"y{n}": "a.C0"} for n in range(10_000)}, "a.C0"),
    "twenty thousand fields": ({"a.B": {f"f{n}": "String" for n in range(20_000)}}, "a.B"),
    "a hundred thousand constants": ({"a.B": [f"C{n}" for n in range(100_000)]}, "a.B"),
    "its own type arguments": ({"a.P<T>": {"x": "a.P<a.P<T>>"}}, "a.P"),
    "itself as a map's key": ({"a.B": {"x": "map<a.B, int>"}}, "a.B"),
}


def test_huge_and_circular_descriptions_make_a_layout_or_an_error_soon() -> None:
    cases = [
        (f"{name}, Kryo {kryo}", _layout(spec, first, kryo))
        for name, (spec, first) in HUGE.items()
        for kryo in (2, 5)
        if not (isinstance(spec, dict) and isinstance(spec.get(first), list))
    ]
    assert run_cases(cases, workers=1).failures == ()
    assert len(parse_classes(HUGE["a hundred thousand constants"][0])["a.B"].constants) == 100_000


def _reading(spec: Any) -> Callable[[], Any]:
    def run() -> None:
        opened = stateproc.open(str(EDGES), classes=spec)
        for state in opened.states:
            try:
                state.to_arrow()
            except SnapshotError as error:
                assert error.where.file

    return run


def test_descriptions_that_do_not_fit_the_bytes() -> None:
    """Every state is read or says why not, whatever the classes are said to be."""
    wrong = [
        {"fixtures.Edges$Generic": {"text": "long", "number": "String", "longs": "list<String>"}},
        {"fixtures.Edges$Generic": {"all": "fixtures.Edges$Generic"}},
        {"fixtures.Edges$Generic": {}},
        {"fixtures.Edges$Generic": ["A", "B"]},
        {"fixtures.Edges$Dog": {f"f{n}": "double" for n in range(1000)}},
        {"fixtures.Edges$Dog": ["A"]},
        {"java.lang.String": {"value": "byte[]"}, "java.lang.Object": {"x": "int"}},
        DOUBLING | {"fixtures.Edges$Generic": {"x": "a.C0"}},
    ]
    cases = [(json.dumps(spec)[:80], _reading(spec)) for spec in wrong]
    assert run_cases(cases, workers=1).failures == ()
