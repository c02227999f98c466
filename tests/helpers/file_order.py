"""The order in which `make test` hands out test files to its processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from tests.helpers.paths import TESTS

Name = TypeVar("Name")

WAITING = ("integration", "docs", "cluster", "acceptance")
"""Folders whose tests start JVMs and other programs, and wait for them more than half of the time."""
_SHARE = 0.85


def starts_programs(file: Path) -> bool:
    """Return whether the tests of a file wait for programs, such as JVMs, rather than compute."""
    return file.relative_to(TESTS).parts[0] in WAITING


def spread(waiting: Sequence[Name], computing: Sequence[Name]) -> Iterator[Name]:
    """Distribute files that wait evenly among files that compute, so that the computing ones use idle processors.

    Both keep their order. The last seventh consists of computing files alone, which are short: no process is left with
    a long file when the others have ended.
    """
    step = _SHARE * len(computing) / max(len(waiting), 1)
    taken = 0
    for number, name in enumerate(waiting, 1):
        yield name
        until = round(number * step)
        yield from computing[taken:until]
        taken = until
    yield from computing[taken:]


def ordered(files: Iterable[Path]) -> list[Path]:
    """Return the files, each once, in the order in which they are handed out."""
    distinct = list(dict.fromkeys(files))
    waiting = [file for file in distinct if starts_programs(file)]
    return list(spread(waiting, [file for file in distinct if not starts_programs(file)]))
