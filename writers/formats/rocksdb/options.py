"""Options of tables under Flink's names (RocksDBConfigurableOptions, RocksDBOptions, PredefinedOptions)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stateproc.errors import InvalidOption, SnapshotError, not_found
from stateproc.writers.formats.rocksdb.block_builder import COMPRESSIONS

PREFIX = "state.backend.rocksdb."
_LEVELS = 7
_MOST_AT_ONCE, _LEAST_AT_ONCE = 4 << 20, 64 << 10


@dataclass(frozen=True)
class TableOptions:
    """Options that affect written tables; sizes in bytes. The defaults are Flink's.

    ``compression_per_level``: names of org.rocksdb.CompressionType from level 0 on, the last for all below.
    ``bloom_bits_per_key``: None for tables without a filter. ``target_file_size``: size at which a table is finished.
    ``memory``: most bytes of one task's open tables (None: limited by the sizes above only): of these
    ``write_buffer_ratio`` for entries that are being encoded, ``high_prio_pool_ratio`` for indexes and filters, which
    stay in memory until their table is finished; a table that uses up its share is finished early.
    """

    block_size: int = 4 << 10
    metadata_block_size: int = 4 << 10
    compression_per_level: tuple[str, ...] = ("SNAPPY_COMPRESSION",)
    bloom_bits_per_key: float | None = None
    target_file_size: int = 64 << 20
    max_size_level_base: int = 256 << 20
    dynamic_level_size: bool = False
    memory: int | None = None
    write_buffer_ratio: float = 0.5
    high_prio_pool_ratio: float = 0.1

    def __post_init__(self) -> None:
        """Raises InvalidOption."""
        for name in ("block_size", "metadata_block_size", "target_file_size", "max_size_level_base"):
            if not 64 <= getattr(self, name) <= (256 << 20 if "block" in name else 1 << 40):
                raise InvalidOption(f"RocksDB option {name}={getattr(self, name)}", advice="give 64 bytes to 256 MB")
        for name in self.compression_per_level:
            if name not in COMPRESSIONS:
                raise not_found("compression that can be written", name, COMPRESSIONS)
        if self.bloom_bits_per_key is not None and not 1 <= self.bloom_bits_per_key <= 100:
            raise InvalidOption(f"{self.bloom_bits_per_key} bits for each key of a filter", advice="give 1 to 100")
        ratios = (self.write_buffer_ratio, self.high_prio_pool_ratio)
        if not all(0 < ratio < 1 for ratio in ratios) or sum(ratios) > 1:
            raise InvalidOption(
                f"write-buffer-ratio {ratios[0]} and high-prio-pool-ratio {ratios[1]}",
                advice="they are shares of one memory: above 0, together 1 at most",
            )

    @property
    def compression(self) -> str:
        """The compression of the last level, to which tables are written."""
        levels = self.compression_per_level or ("SNAPPY_COMPRESSION",)
        return levels[min(_LEVELS, len(levels)) - 1]

    def bytes_at_once(self, tables: int) -> int:
        """Bytes of entries that are encoded at once when so many tables are open."""
        if self.memory is None:
            return _MOST_AT_ONCE
        return min(_MOST_AT_ONCE, max(_LEAST_AT_ONCE, int(self.memory * self.write_buffer_ratio) // (2 * tables)))

    def most_held(self, tables: int) -> int | None:
        """Most bytes of index and filter of each of so many open tables; None: no limit."""
        if self.memory is None:
            return None
        return max(_LEAST_AT_ONCE, int(self.memory * self.high_prio_pool_ratio) // tables)


OptionsFactory = Callable[[TableOptions], TableOptions]
"""Like Flink's RocksDBOptionsFactory: receives the options so far and returns the final ones."""

_NAMES_OF_UNITS = (" b bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes")
_UNITS = {name: 10 * power for power, names in enumerate(_NAMES_OF_UNITS) for name in names.split(" ")}


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,18})\s*([a-z]*)", text.strip().lower())
    if not found or found.group(2) not in _UNITS:
        raise ValueError("a size such as '64 mb'")
    return int(found.group(1)) << _UNITS[found.group(2)]


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number") from None


def _compressions(text: str) -> tuple[str, ...]:
    return tuple(item.strip().upper() for item in text.split(";") if item.strip())


_KEYS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "block.blocksize": ("block_size", _size),
    "block.metadata-blocksize": ("metadata_block_size", _size),
    "compression.per.level": ("compression_per_level", _compressions),
    "compaction.level.target-file-size-base": ("target_file_size", _size),
    "compaction.level.max-size-level-base": ("max_size_level_base", _size),
    "compaction.level.use-dynamic-size": ("dynamic_level_size", _boolean),
    "memory.fixed-per-slot": ("memory", _size),
    "memory.write-buffer-ratio": ("write_buffer_ratio", _number),
    "memory.high-prio-pool-ratio": ("high_prio_pool_ratio", _number),
}
_USE_BLOOM, _BLOOM_BITS = "use-bloom-filter", "bloom-filter.bits-per-key"
_PREDEFINED = "predefined-options"
_OF_RUNNING_JOBS = frozenset(
    """
    block.cache-size bloom-filter.block-based-mode checkpoint.transfer.thread.num checkpointdir
    compaction.filter.periodic-compaction-time compaction.filter.query-time-after-num-entries compaction.style
    files.open incremental-restore-async-compact-after-rescale localdir log.dir log.file-num log.level
    log.max-file-size memory.fixed-per-tm memory.managed memory.partitioned-index-filters options-factory
    rescaling.use-delete-files-in-range restore-overlap-fraction-threshold thread.num timer-service.cache-size
    timer-service.factory use-ingest-db-restore-mode write-batch-size writebuffer.count writebuffer.number-to-merge
    writebuffer.size
    """.split()
)
"""Keys of Flink without effect on files: accepted, so that a job's whole configuration can be given."""

PREDEFINED: dict[str, dict[str, str]] = {
    "DEFAULT": {},
    "SPINNING_DISK_OPTIMIZED": {"compaction.level.use-dynamic-size": "true"},
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
        "compaction.level.use-dynamic-size": "true",
        "compaction.level.target-file-size-base": "256mb",
        "compaction.level.max-size-level-base": "1gb",
        "block.blocksize": "128kb",
        _USE_BLOOM: "true",
    },
    "FLASH_SSD_OPTIMIZED": {},
}
"""Flink's PredefinedOptions that concern files."""


def rocksdb_options(options: Mapping[str, Any] | None = None, factory: OptionsFactory | None = None) -> TableOptions:
    """Return the table options of a job's configuration.

    Args:
        options: keys ``state.backend.rocksdb.…``, which override predefined options. Values as in Flink's configuration
            ('64 mb', 'true', 'LZ4_COMPRESSION;ZSTD_COMPRESSION'), or numbers and booleans.
        factory: receives these options and returns the final ones.

    Raises:
        NotFound: a key that Flink does not have.
        InvalidOption: a value that cannot be parsed, or that RocksDB does not accept.
    """
    given = {_short(key): _text(value) for key, value in (options or {}).items()}
    name = given.pop(_PREDEFINED, "DEFAULT")
    if name.upper() not in PREDEFINED:
        raise not_found("predefined RocksDB options", name, PREDEFINED)
    merged = {**PREDEFINED[name.upper()], **given}
    values: dict[str, Any] = {}
    for key, (attribute, read) in _KEYS.items():
        if key in merged:
            values[attribute] = _read(key, merged[key], read)
    bits = _read(_BLOOM_BITS, merged.get(_BLOOM_BITS, "10"), _number)
    if _read(_USE_BLOOM, merged.get(_USE_BLOOM, "false"), _boolean):
        values["bloom_bits_per_key"] = bits
    made = TableOptions(**values)
    if factory is None:
        return made
    last = factory(made)
    if not isinstance(last, TableOptions):
        raise InvalidOption(
            f"the options factory returned {type(last).__name__}",
            advice="return the options it receives, or dataclasses.replace(options, …)",
        )
    return last


def _short(key: str) -> str:
    known = {*_KEYS, *_OF_RUNNING_JOBS, _USE_BLOOM, _BLOOM_BITS, _PREDEFINED}
    short = key.removeprefix(PREFIX)
    if short == key or short not in known:
        raise not_found("RocksDB option", key, [PREFIX + item for item in sorted(known)])
    return short


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ";".join(map(str, value))
    return str(value)


def _read(key: str, text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except SnapshotError:
        raise
    except ValueError as error:
        raise InvalidOption(f"{PREFIX}{key}={text!r}", advice=f"give {error}") from error
