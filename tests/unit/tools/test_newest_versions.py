"""A range that ends before the newest release of a package has a reason beside it."""

from __future__ import annotations

import re

import pytest

from tools.newest_versions import PROJECT_FILE, excluded, requirements

TEXT = """
[project]
name = "own"
dependencies = ["numpy>=1.26,<3"]
[project.optional-dependencies]
{reason}
sql = ["duckdb>=1.5,<3", "own[more]"]
more = ["numba>=0.61,<0.70 ; python_version >= '3'"]
"""


@pytest.mark.parametrize(
    ("newest", "reason", "found"),
    [
        ({}, "", []),
        ({"numpy": "3.0.1"}, "", ["numpy 3.0.1 is out, and pyproject.toml has numpy<3,>=1.26"]),
        ({"duckdb": "3.0"}, "# Not duckdb 3: it has no json_serialize_sql.", []),
        (
            {"duckdb": "3.0"},
            "# Not duckdbs 3: another package.",
            ["duckdb 3.0 is out, and pyproject.toml has duckdb<3,>=1.5"],
        ),
        (
            {"numba": "0.70.0", "numpy": "4"},
            "# Not numba 0.70: …",
            ["numpy 4 is out, and pyproject.toml has numpy<3,>=1.26"],
        ),
    ],
)
def test_an_excluded_release_needs_a_reason(newest: dict[str, str], reason: str, found: list[str]) -> None:
    versions = {"numpy": "2.4.6", "duckdb": "2.0.1", "numba": "0.68.1"} | newest
    assert excluded(TEXT.format(reason=reason), versions) == found


def test_each_range_has_two_ends() -> None:
    """The one that `make test-least` runs with, and the one that `make test-newest` watches."""
    for item in requirements(PROJECT_FILE.read_text(encoding="utf-8")):
        assert {">=", "<"} <= {bound.operator for bound in item.specifier}, item


def test_reasons_name_packages_of_the_file() -> None:
    text = PROJECT_FILE.read_text(encoding="utf-8")
    names = {item.name for item in requirements(text)}
    assert set(re.findall(r"# Not ([\w-]+)", text)) <= names
