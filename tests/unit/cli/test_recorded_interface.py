"""Arguments, help texts, JSON schemas and written bytes are those that were recorded."""

from __future__ import annotations

import json

import pytest

from tests.helpers import recorded_interface
from tests.helpers.recorded_interface import RECORDED

WAS = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("what", ["arguments", "schemas", "state files"])
def test_the_interface_is_as_recorded(what: str) -> None:
    """A change that is meant is recorded by ``python -m tests.helpers.recorded_interface``."""
    made = {
        "arguments": recorded_interface.arguments,
        "schemas": recorded_interface.schemas,
        "state files": recorded_interface.written,
    }[what]()
    assert made == WAS[what]
