"""Mark the cases that only `make test` runs (sweeps over all fixtures and releases), and order its files."""

from __future__ import annotations

import re

import pytest

from tests.helpers.file_order import ordered
from tests.helpers.fixtures import Fixture, representatives


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark cases, and order the files that several processes share."""
    _mark_exhaustive(items)
    if hasattr(config, "workerinput"):
        place = {file: number for number, file in enumerate(ordered(item.path for item in items))}
        items.sort(key=lambda item: place[item.path])


def _mark_exhaustive(items: list[pytest.Item]) -> None:
    """Mark each case of a fixture that is none of the representatives, and of a release that is not the newest.

    A module whose tests do not depend on how files are found says so: ``READS_EVERY_MODE = False``.
    """
    newest: dict[tuple[str, str, str], tuple[tuple[int, ...], pytest.Item]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None:
            continue
        given = [value for value in callspec.params.values() if isinstance(value, Fixture)]
        modes = getattr(getattr(item, "module", None), "READS_EVERY_MODE", True)
        if any(fixture.name not in representatives(modes) for fixture in given):
            item.add_marker(pytest.mark.exhaustive)
        release = callspec.params.get("release")
        if isinstance(release, str) and re.fullmatch(r"\d+\.\d+", release):
            version = tuple(map(int, release.split(".")))
            case = (item.location[0], getattr(item, "originalname", ""), callspec.id.replace(release, "", 1))
            kept, other = newest.setdefault(case, (version, item))
            if version > kept:
                newest[case] = version, item
                other.add_marker(pytest.mark.exhaustive)
            elif version < kept:
                item.add_marker(pytest.mark.exhaustive)
