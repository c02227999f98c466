"""Mark the cases that only `make test` runs: sweeps over all fixtures beyond one of each kind."""

from __future__ import annotations

import pytest

from tests.helpers.fixtures import Fixture, representatives


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each case of a fixture that is none of the representatives."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        given = [] if callspec is None else [value for value in callspec.params.values() if isinstance(value, Fixture)]
        if any(fixture.name not in representatives() for fixture in given):
            item.add_marker(pytest.mark.exhaustive)
