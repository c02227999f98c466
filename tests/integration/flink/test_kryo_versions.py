"""Why state of Kryo is not carried over from Flink 1.x to 2.x: Flink finds it compatible, and does not restore it."""

from __future__ import annotations

import pytest

from tests.helpers.fixtures import FIXTURES, fixtures_in
from tests.helpers.flink.cases import REGISTERED
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import Restored, Spec, restore

pytestmark = pytest.mark.flink

UID = "edges-generic"


@pytest.fixture(scope="module")
def restored(tmp_path_factory: pytest.TempPathFactory) -> Restored:
    path = fixtures_in(FIXTURES / "1.20" / "edges-rocksdb-canonical")[0].snapshot
    spec = Spec("edges", path, OPERATORS["edges"], ("rocksdb",), (1,), options=dict(REGISTERED))
    return restore("2.3", [spec], tmp_path_factory.mktemp("kryo") / "restored")["edges"]


def test_flink_finds_a_generic_type_compatible(restored: Restored) -> None:
    assert restored.compatibility[UID, "generic", "value"] == "as is"


def test_flink_does_not_restore_the_operator(restored: Restored) -> None:
    (run,) = restored.runs.values()
    assert any("Could not restore keyed state backend" in cause for cause in run.causes)
    assert "Missing value for the key 'org.apache.avro.generic.GenericData$Array'" in str(run.error)
