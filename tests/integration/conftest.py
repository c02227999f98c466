"""Share one Spark session among all tests of a process that need one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.paths import FIXTURES
from tests.helpers.spark.session import spark

__all__ = ["fixtures", "spark"]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """Return the folder of all fixtures."""
    return FIXTURES
