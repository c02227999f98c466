"""Errors are also the built-in exceptions that Python programs expect, and keep their place and advice."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import pytest

import stateproc
from stateproc import types
from stateproc.errors import InvalidOption, MissingPackage, NotFound, SnapshotError, Where
from stateproc.feed.streams import StreamOffset
from stateproc.serializers.java.class_descriptions import parse_classes
from tests.helpers.paths import DEMO, python_environment


@pytest.mark.parametrize(
    ("kind", "built_in"), [(NotFound, KeyError), (InvalidOption, ValueError), (MissingPackage, ImportError)]
)
def test_an_error_is_the_built_in_one_too(kind: type[SnapshotError], built_in: type[Exception]) -> None:
    error = kind("no such thing", where=Where(file="f", operator="o"), advice="do this")
    assert isinstance(error, built_in)
    assert str(error) == "no such thing [file f, operator o]\n  → do this"
    for copy in (pickle.loads(pickle.dumps(error)), error.at(state="s")):
        assert type(copy) is kind
        assert (copy.message, copy.advice, copy.where.file) == ("no such thing", "do this", "f")


def test_names_and_options_are_looked_up_as_in_a_dictionary() -> None:
    snapshot = stateproc.open(str(DEMO))
    with pytest.raises(KeyError, match="no operator with uid"):
        snapshot.operator("orders-per-customr")
    with pytest.raises(ValueError, match="temporal"):
        stateproc.open(str(DEMO), temporal="days")


@pytest.mark.processes
@pytest.mark.parametrize(
    ("package", "call", "advice"),
    [
        ("duckdb", "snapshot.sql('SELECT 1')", "pip install 'stateproc[sql]'"),
        ("polars", "snapshot.states[0].to_polars()", "pip install polars"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_the_command(package: str, call: str, advice: str) -> None:
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"import stateproc; snapshot = stateproc.open({str(DEMO)!r})\n"
        f"try: {call}\n"
        "except stateproc.MissingPackage as error: print(error.advice)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=python_environment())
    assert run.stdout.strip() == advice, run.stderr


@pytest.mark.parametrize(
    ("function", "argument", "message"),
    [
        (parse_classes, '{"a.B": {}, "a.B": {}}', "occurs twice"),
        (StreamOffset.of, {"schemaVersion": 99}, "written by another release"),
        (types.Avro, ('{"type": "int"}', ""), "class"),
    ],
)
def test_a_typed_error_is_not_taken_for_the_built_in_one(function: Any, argument: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as caught:
        function(*argument if isinstance(argument, tuple) else (argument,))
    assert caught.value.__cause__ is None
