"""Which state backend restores a snapshot."""

from __future__ import annotations

import pytest

from stateproc.compatibility.verdicts import Verdict
from stateproc.errors import InvalidOption
from tests.helpers.fixtures import fixtures
from tests.helpers.flink.backend_restores import RESTORED

SNAPSHOTS = {fixture.name: fixture for fixture in fixtures() if fixture.name in RESTORED}


@pytest.mark.parametrize("name", RESTORED)
def test_backends_restore_what_flink_restores(name: str) -> None:
    snapshot = SNAPSHOTS[name].open()
    for backend, restores in zip(("hashmap", "rocksdb"), RESTORED[name], strict=True):
        check = snapshot.check(backend=backend)
        assert check.restores is restores, backend
        if not restores:
            (operator,) = [one for one in check.operators if one.verdict is Verdict.REFUSED]
            assert operator.exception is not None and "only the other state backend restores" in operator.reasons[0]
            assert operator.fix is not None and operator.fix.startswith("stateproc convert --to canonical ")


def test_a_backend_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidOption, match="no state backend 'heap'"):
        SNAPSHOTS["2.3/tiny-rocksdb-full"].open().check(backend="heap")
