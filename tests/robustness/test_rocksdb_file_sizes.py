"""Damage to a RocksDB database that the sizes of its files reveal."""

from __future__ import annotations

import pytest

from stateproc.errors import CorruptSnapshot, SnapshotError
from tests.helpers.damage.corpus import Target, part_targets


def _table() -> Target:
    names = (target for target in part_targets() if target.name.startswith("1.20/tiny-rocksdb-full/"))
    return next(target for target in names if target.data.endswith(b"\xf7\xcf\xf4\x85\xb7A\xe2\x88"))


@pytest.mark.parametrize("change", [-1, 1, 7])
def test_a_table_of_another_size_is_reported_with_both_sizes(change: int) -> None:
    table = _table()
    data = table.data[:change] if change < 0 else table.data + bytes(change)
    assert table.read_all is not None
    errors = [item for item in table.read_all(data).values() if isinstance(item, SnapshotError)]
    assert errors
    for error in errors:
        assert isinstance(error, CorruptSnapshot)
        assert "where the MANIFEST says" in str(error)
        assert error.where.offset == min(len(data), len(table.data))


def test_an_empty_table() -> None:
    table = _table()
    assert table.read_all is not None
    errors = [item for item in table.read_all(b"").values() if isinstance(item, SnapshotError)]
    assert errors
    assert {error.where.offset for error in errors} == {0}
