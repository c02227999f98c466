"""What all tests of the data source share."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark_session import spark

__all__ = ["fixtures", "spark"]


@pytest.fixture(scope="session")
def fixtures() -> Path:
    return Path(__file__).parents[1] / "fixtures"
