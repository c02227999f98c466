"""Dependencies have ranges: a lower bound that `make test-least` tests, and an upper one below untested releases."""

from __future__ import annotations

from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

from tools.least_versions import least_versions

REQUIREMENTS = [text for text in requires("stateproc") or () if Requirement(text).name != "stateproc"]


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_every_dependency_has_a_lower_and_an_upper_bound(text: str) -> None:
    assert {item.operator for item in Requirement(text).specifier} == {">=", "<"}


def test_oldest_releases_of_what_runs_the_package() -> None:
    required = ["numpy<3,>=1.26", 'duckdb<3,>=1.5.3; extra == "sql"', 'pytest<10,>=8; extra == "dev"']
    assert list(least_versions(required)) == ["numpy==1.26", "duckdb==1.5.3"]
    with pytest.raises(ValueError, match="an upper bound are required"):
        list(least_versions(["numpy>=1.26"]))
