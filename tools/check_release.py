"""Compare a tag with the version and the changelog: `python -m tools.check_release v0.1.0`; see RELEASING.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import stateproc

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
HEADING = re.compile(r"(?m)^## (\S+) – (\d{4}-\d\d-\d\d)$")


def released(changelog: str) -> list[str]:
    """Return the versions that have a section with a date, the newest first."""
    return [version for version, _ in HEADING.findall(changelog)]


def problems(tag: str, version: str, changelog: str) -> list[str]:
    """Return a sentence about each thing that does not fit a tag."""
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, and __version__ in stateproc/__init__.py is {version}")
    if released(changelog)[:1] != [version]:
        found.append(f"the newest section of CHANGELOG.md is not `## {version} – date`")
    unreleased = changelog.partition("## Unreleased\n")[2].partition("\n## ")[0]
    if unreleased.strip():
        found.append("CHANGELOG.md has entries below `## Unreleased`")
    return found


if __name__ == "__main__":
    found = problems(sys.argv[1], stateproc.__version__, CHANGELOG.read_text(encoding="utf-8"))
    sys.exit("\n".join(found))
