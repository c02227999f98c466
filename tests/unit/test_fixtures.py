"""Every snapshot that real Flink wrote reads equal, row by row, to what its job wrote down."""

from __future__ import annotations

import pytest
from fixtures_check import Fixture, differences, fixtures

from stateproc.errors import UnsupportedSnapshot
from stateproc.operators import Operator

# Fields of classes whose snapshot tells nothing: Kryo classes, and POJO subclasses that heap snapshots do not list.
CLASSES = {
    "fixtures.Edges$Dog": {"legs": "int", "name": "String", "weight": "Double"},
    "fixtures.Edges$Generic": {"text": "String", "number": "int", "longs": "long[]"},
}


READ = {"canonical", "heap", "rocksdb"}


def _reads_now(fixture: Fixture) -> bool:
    """Whether all keyed state lies in files that this release reads: all but changelogs."""
    return READ >= {file.layout for operator in fixture.open().operators for file in operator.keyed_files}


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: fixture.name)
def test_every_row_is_what_the_job_wrote(fixture: Fixture) -> None:
    snapshot = fixture.open(classes=CLASSES, temporal="exact")
    if _reads_now(fixture):
        assert differences(fixture, snapshot) == []
    else:
        _says_what_it_cannot_read(snapshot.operators)


def _says_what_it_cannot_read(operators: tuple[Operator, ...]) -> None:
    """States in changelogs are listed with their types; reading them says so, and what to do."""
    for operator in operators:
        for state in operator.keyed_states:
            if {file.layout for file in operator.keyed_files} <= READ:
                continue
            assert len(state.schema()) >= 3
            with pytest.raises(UnsupportedSnapshot, match="does not read yet") as caught:
                list(state.batches())
            assert caught.value.advice is not None
            assert caught.value.where.operator == operator.display
