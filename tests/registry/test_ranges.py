"""No range in pyproject.toml excludes the newest release of a package without a reason beside it."""

from __future__ import annotations

from tools.newest_versions import PROJECT_FILE, excluded, newest_versions, requirements


def test_ranges_allow_the_newest_releases() -> None:
    text = PROJECT_FILE.read_text(encoding="utf-8")
    assert excluded(text, newest_versions(sorted({item.name for item in requirements(text)}))) == []
