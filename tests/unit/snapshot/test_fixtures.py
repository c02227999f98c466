"""Every snapshot that real Flink wrote reads equal, row by row, to what its job wrote down."""

from __future__ import annotations

import pytest

from tests.helpers.fixtures import CLASSES, Fixture, differences, fixtures


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)
def test_every_row_is_what_the_job_wrote(fixture: Fixture) -> None:
    snapshot = fixture.open(classes=CLASSES, temporal="exact")
    assert differences(fixture, snapshot) == []
