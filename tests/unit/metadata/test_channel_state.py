"""In-flight records of Flink's unaligned checkpoints, of which one file stores those of several subtasks."""

from __future__ import annotations

import pytest

from stateproc.metadata import walk_stream_handles
from stateproc.snapshot.metadata_tables import METADATA_TABLES
from tests.helpers.fixtures import Fixture, fixtures

IN_FLIGHT = [fixture for fixture in fixtures() if fixture.manifest["job"] == "inflight"]


def test_fixtures_contain_both_kinds_of_channel_handles() -> None:
    assert {fixture.open().metadata.version for fixture in IN_FLIGHT} == {4, 6}


@pytest.mark.parametrize("fixture", IN_FLIGHT, ids=lambda fixture: fixture.name)
def test_a_file_shared_by_channels_is_counted_once(fixture: Fixture) -> None:
    snapshot = fixture.open()
    uses = [use for use in walk_stream_handles(snapshot.metadata) if use.role.startswith("channel")]
    files = {use.handle.path: use.handle.size for use in uses}
    assert len(files) < len(uses)
    for path, size in files.items():
        # A channel file starts with the format's version.
        assert sum(use.bytes for use in uses if use.handle.path == path) + 4 == size


@pytest.mark.parametrize("fixture", IN_FLIGHT, ids=lambda fixture: fixture.name)
def test_the_size_of_an_operator_includes_only_its_own_segments(fixture: Fixture) -> None:
    snapshot = fixture.open()
    totals = METADATA_TABLES["operators"].table(snapshot).column("operator-total-size-in-bytes").to_pylist()
    assert all(total > 0 for total in totals)
    files = {use.handle.path: use.handle.size for use in walk_stream_handles(snapshot.metadata)}
    versions = len({use.handle for use in walk_stream_handles(snapshot.metadata) if use.role.startswith("channel")})
    assert sum(totals) == sum(files.values()) - 4 * versions
