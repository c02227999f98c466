"""Choose the fixtures that `make test-fast` reads: one of each kind, and of these a few in each sweep."""

from __future__ import annotations

import zlib
from functools import cache

from tests.helpers.fixtures import Fixture, newest_fixtures

_MOST_STATES = "kitchen"
"""The job that has every kind of state."""


@cache
def representatives(modes: bool = True) -> frozenset[str]:
    """Return the names of the fixtures that `make test-fast` reads; tests/conftest.py marks all others `exhaustive`.

    Args:
        modes: Whether every mode is read. A mode changes how files are found and read, not what is done with entries.

    Of each case of a job only the newest release counts, and of a chain the last snapshot. Of these, every job is read
    in each format that it was written in, and every mode (compressed, inline, with merged files …) of a format once,
    written by the smallest job that has it.
    """
    newest = newest_fixtures()
    chosen: dict[tuple[str, str, str], Fixture] = {}
    for fixture in sorted(newest, key=lambda item: (item.expected_path.stat().st_size, item.path.name)):
        if modes:
            chosen.setdefault(("mode", format_of(fixture), mode_of(fixture)), fixture)
    for fixture in sorted(newest, key=lambda item: (mode_of(item).count("-"), item.path.name)):
        chosen.setdefault(("job", format_of(fixture), _SAME_STATES.get(job := fixture.manifest["job"], job)), fixture)
    return frozenset(fixture.name for fixture in chosen.values())


_SAME_STATES = {"finished": "kitchen"}
"""Jobs by the job that has the same states."""


def format_of(fixture: Fixture) -> str:
    """Return what determines how the entries of keyed state are stored."""
    if "changelog" in fixture.manifest.get("mode", ""):
        return "changelog"
    return "canonical" if fixture.manifest["kind"] == "canonical" else str(fixture.manifest["backend"])


def mode_of(fixture: Fixture) -> str:
    """Return the mode in which the job was run, without the backend that holds its state."""
    words = fixture.manifest.get("mode", "").split("-")
    return "-".join(word for word in words if word not in ("hashmap", "rocksdb"))


def sampled_fixtures(fixtures: list[Fixture], sweep: str) -> frozenset[str]:
    """Return the names of the fixtures that a sweep reads in `make test-fast`.

    These are one of each format, and one of the job that has every kind of state. Which ones follows from the name of
    the sweep, so that the sweeps together read many of them.

    Args:
        fixtures: The fixtures from which it chooses.
        sweep: The name of the test, with its other arguments.
    """
    number = zlib.crc32(sweep.encode())
    groups: dict[str, list[str]] = {}
    for fixture in fixtures:
        groups.setdefault(format_of(fixture), []).append(fixture.name)
        if fixture.manifest["job"] == _MOST_STATES:
            groups.setdefault(_MOST_STATES, []).append(fixture.name)
    return frozenset(sorted(names)[number % len(names)] for names in groups.values())
