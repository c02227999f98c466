"""Mark the cases that only `make test` runs (sweeps over all fixtures and releases), and order its files."""

from __future__ import annotations

import atexit
import gc
import os
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.helpers.file_order import ordered
from tests.helpers.fixture_samples import representatives, sampled_fixtures
from tests.helpers.fixtures import Fixture


def pytest_configure(config: pytest.Config) -> None:
    """Give each of several processes a core of its own if no test starts a program, which would inherit it.

    Then states are read with one thread, and the processes do not compete.
    """
    if (
        hasattr(config, "workerinput")
        and "not processes" in config.option.markexpr
        and hasattr(os, "sched_setaffinity")
    ):
        cores = sorted(os.sched_getaffinity(0))
        worker = int(config.workerinput["workerid"].removeprefix("gw"))
        os.sched_setaffinity(0, {cores[worker % len(cores)]})


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without collecting garbage: thousands of new objects that all stay alive would be visited often."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exclude what exists before the first test, modules and tests, from garbage collection."""
    gc.freeze()
    # Let the interpreter free everything at its end; DuckDB's extension reports what it cannot free as leaks.
    atexit.register(gc.unfreeze)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark cases, and order the files that several processes share."""
    _mark_exhaustive(items)
    _mark_sampled(items)
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
        modes = getattr(getattr(item, "module", None), "READS_EVERY_MODE", True)
        if any(fixture.name not in representatives(modes) for fixture in _fixtures_of(item)):
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


def _mark_sampled(items: list[pytest.Item]) -> None:
    """Mark the cases of fixtures that a sweep leaves out in `make test-fast`, so that each reads a few of them.

    A module that reads all representatives there, so that others need not, says so: ``SAMPLES_FIXTURES = False``.
    """
    sweeps: dict[str, list[tuple[Fixture, pytest.Item]]] = defaultdict(list)
    for item in items:
        given = _fixtures_of(item)
        sampled = len(given) == 1 and getattr(getattr(item, "module", None), "SAMPLES_FIXTURES", True)
        if sampled and not item.get_closest_marker("exhaustive"):
            sweeps[item.nodeid.replace(given[0].name, "")].append((given[0], item))
    for name, cases in sweeps.items():
        chosen = sampled_fixtures([fixture for fixture, _ in cases], name)
        for fixture, item in cases:
            if fixture.name not in chosen:
                item.add_marker(pytest.mark.sampled)


def _fixtures_of(item: pytest.Item) -> list[Fixture]:
    callspec = getattr(item, "callspec", None)
    return [value for value in callspec.params.values() if isinstance(value, Fixture)] if callspec else []
