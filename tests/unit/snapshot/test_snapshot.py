"""Properties of a snapshot."""

from __future__ import annotations

import pytest

from stateproc.storage import sources
from tests.helpers.fixtures import fixtures

KINDS = {
    "1.20/kitchen-hashmap-canonical": "canonical savepoint",
    "1.20/kitchen-hashmap-checkpoint": "checkpoint",
    "1.8/kitchen-hashmap-canonical": "savepoint or checkpoint",
}


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_is_derived_without_reading_state_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = next(item for item in fixtures() if item.name == name).open()

    def read(*_: object) -> bytes:
        raise AssertionError("a state file was read")

    monkeypatch.setattr(sources.FileSource, "read", read)
    assert snapshot.kind == KINDS[name]
