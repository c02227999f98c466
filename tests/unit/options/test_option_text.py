"""Python values as the text of options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stateproc.errors import InvalidOption
from stateproc.options.definition import option_texts
from stateproc.writers.savepoint_writer import SavepointWriter
from tests.helpers.paths import FIXTURES


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x, y", "x, y"),
        (True, "true"),
        (7, "7"),
        (["a", "b"], '["a", "b"]'),
        (("a",), '["a"]'),
        ({"b", "a"}, '["a", "b"]'),
        (frozenset({"a"}), '["a"]'),
        ({"k": {"b", "a"}}, '{"k": ["a", "b"]}'),
        (Path("/classes.json"), "/classes.json"),
        ([Path("/old")], '["/old"]'),
    ],
)
def test_values_are_text(value: Any, text: str) -> None:
    assert option_texts({"name": value}) == {"name": text}


def test_none_is_no_option() -> None:
    assert option_texts({"uids": None}) == {}


def test_what_has_no_text_is_refused() -> None:
    with pytest.raises(InvalidOption, match="option uids cannot be of type object"):
        option_texts({"uids": [object()]})


def test_a_writer_takes_sets_paths_and_none(tmp_path: Path) -> None:
    classes = tmp_path / "classes.json"
    classes.write_text("{}")
    source = FIXTURES / "1.20/demo/snapshot"
    options = {"uids": {"orders-per-customer"}, "classes": classes, "plugins": None}
    writer = SavepointWriter.from_existing_savepoint(None, source, options)
    assert "orders-per-customer" in repr(writer)
