"""Damage in filters, which reading entries does not need, is found by checking them."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocksdict import BlockBasedIndexType, BlockBasedOptions, Options, Rdict

from stateproc.errors import CorruptSnapshot
from stateproc.readers.rocksdb import open_table
from stateproc.readers.rocksdb.table import check_filters
from stateproc.storage import InlineSource


def table_with_filter(directory: Path, *, partitioned: bool) -> InlineSource:
    table = BlockBasedOptions()
    table.set_bloom_filter(10.0, False)
    if partitioned:
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    db = Rdict(str(directory), options)
    for key in range(500):
        db[b"%06d" % key] = b"value"
    db.flush()
    db.close()
    (file,) = directory.glob("*.sst")
    return InlineSource(file.name, file.read_bytes())


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_flipped_bit_in_a_filter_is_found(tmp_path: Path, partitioned: bool) -> None:
    source = table_with_filter(tmp_path, partitioned=partitioned)
    check_filters(source)
    (handle,) = open_table(source).filter_handles
    data = bytearray(source.data)
    data[handle.offset + handle.size // 2] ^= 1
    damaged = InlineSource(source.name, bytes(data))
    with pytest.raises(CorruptSnapshot, match="the checksum of a filter is wrong") as found:
        check_filters(damaged)
    assert found.value.where.offset == handle.offset
    check_filters(damaged, verify=False)


def test_tables_without_filters_have_nothing_to_check(tmp_path: Path) -> None:
    db = Rdict(str(tmp_path), Options(raw_mode=True))
    db[b"a"] = b"b"
    db.flush()
    db.close()
    (file,) = tmp_path.glob("*.sst")
    source = InlineSource(file.name, file.read_bytes())
    assert open_table(source).filter_handles == ()
    check_filters(source)
