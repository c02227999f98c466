"""A tag is published only if it fits the version and the changelog."""

from __future__ import annotations

import pytest

import stateproc
from tools.check_release import CHANGELOG, problems, released

SECTIONS = "# Changelog\n\n## Unreleased\n{entries}\n## 0.2.0 – 2026-12-01\n\n- B\n\n## 0.1.0 – 2026-11-25\n\n- A\n"


@pytest.mark.parametrize(
    ("tag", "version", "entries", "found"),
    [
        ("v0.2.0", "0.2.0", "", []),
        ("v0.2.0", "0.1.0", "", ["__version__", "not `## 0.1.0"]),
        ("0.2.0", "0.2.0", "", ["the tag is 0.2.0"]),
        ("v0.3.0", "0.3.0", "", ["not `## 0.3.0"]),
        ("v0.2.0", "0.2.0", "\n- C\n", ["entries below"]),
    ],
)
def test_a_tag_fits_version_and_changelog(tag: str, version: str, entries: str, found: list[str]) -> None:
    lines = problems(tag, version, SECTIONS.format(entries=entries))
    assert len(lines) == len(found)
    assert all(part in line for part, line in zip(found, lines, strict=True))


def test_the_changelog_has_a_section_of_this_version() -> None:
    assert stateproc.__version__ in released(CHANGELOG.read_text(encoding="utf-8"))
