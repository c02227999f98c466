"""Write the OPTIONS file of a database, for RocksDB's tools; Flink itself does not read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stateproc.writers.formats.rocksdb.options import TableOptions
from stateproc.writers.formats.rocksdb.table import COMPARATOR, FORMAT_VERSION, MERGE_OPERATOR

_COMPRESSIONS = {
    "NO_COMPRESSION": "kNoCompression", "SNAPPY_COMPRESSION": "kSnappyCompression",
    "ZLIB_COMPRESSION": "kZlibCompression", "LZ4_COMPRESSION": "kLZ4Compression",
    "LZ4HC_COMPRESSION": "kLZ4HCCompression", "ZSTD_COMPRESSION": "kZSTD",
}  # fmt: skip


def options_file(families: Sequence[str], options: TableOptions) -> bytes:
    """Return an OPTIONS file for the column families of these names, ``default`` first."""
    sections = [_section("Version", {"rocksdb_version": "6.20.3", "options_file_version": "1.1"})]
    sections.append(_section("DBOptions", {"create_if_missing": "true", "avoid_flush_during_shutdown": "true"}))
    levels = ":".join(_COMPRESSIONS[name] for name in options.compression_per_level)
    family = {
        "comparator": COMPARATOR,
        "merge_operator": MERGE_OPERATOR,
        "num_levels": "7",
        "compression": _COMPRESSIONS[options.compression],
        "compression_per_level": levels,
        "target_file_size_base": str(options.target_file_size),
        "max_bytes_for_level_base": str(options.max_size_level_base),
        "level_compaction_dynamic_level_bytes": str(options.dynamic_level_size).lower(),
        "table_factory": "BlockBasedTable",
    }
    bits = options.bloom_bits_per_key
    table = {
        "format_version": str(FORMAT_VERSION),
        "checksum": "kCRC32c",
        "block_size": str(options.block_size),
        "metadata_block_size": str(options.metadata_block_size),
        "filter_policy": "nullptr" if bits is None else f"bloomfilter:{bits}:false",
    }
    for name in families:
        sections.append(_section(f'CFOptions "{_escaped(name)}"', family))
        sections.append(_section(f'TableOptions/BlockBasedTable "{_escaped(name)}"', table))
    return ("# This is a RocksDB option file.\n\n" + "\n".join(sections)).encode("utf-8", "replace")


def _section(head: str, values: Mapping[str, str]) -> str:
    return "".join([f"[{head}]\n", *(f"  {key}={value}\n" for key, value in values.items())])


def _escaped(name: str) -> str:
    """EscapeOptionString in util/string_util.cc, for names with characters of its own grammar."""
    special = {"\\": "\\\\", "#": "\\#", ":": "\\:", "\r": "\\r", "\n": "\\n"}
    return "".join(special.get(letter, letter) for letter in name)
