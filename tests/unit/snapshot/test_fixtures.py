"""Every snapshot that Flink wrote has, row by row, the states that its job recorded."""

from __future__ import annotations

import pytest

from tests.helpers.fixtures import CLASSES, Fixture, differences, fixtures

SAMPLES_FIXTURES = False


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)
def test_every_row_equals_the_one_that_the_job_recorded(fixture: Fixture) -> None:
    snapshot = fixture.open(classes=CLASSES, temporal="exact")
    assert differences(fixture, snapshot) == []
