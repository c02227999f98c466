"""Random histories of small databases, with checkpoints that share tables, written by RocksDB through rocksdict."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from rocksdict import BlockBasedOptions, Checkpoint, DBCompressionType, Options, Rdict, SstFileWriter

from tests.helpers.rocksdb.databases import in_memory

GROUPS = 6
Files = dict[str, bytes]


class History:
    """A database that random operations change.

    Args:
        directory: Where the database is.
        seed: Of the operations, and of the options that the database is opened with.
    """

    def __init__(self, directory: Path, seed: int) -> None:
        self._random, self._directory = random.Random(seed), directory
        self._keys = self._random.choice((20, 200, 2000))
        self._compactions = self._random.choice((0.0, 0.005, 0.03))
        self._database = Rdict(str(directory / "db"), self._options())
        self._ingested = 0

    def checkpoints(self, count: int) -> Iterator[Files]:
        """Yield the files of the database after each of some runs of operations."""
        for number in range(count):
            for _ in range(self._random.choice((0, 1, 5, 40, 150))):
                self._step()
            taken = self._directory / f"checkpoint-{number}"
            Checkpoint(self._database).create_checkpoint(str(taken))
            yield in_memory(taken)
        self._database.close()

    def _options(self) -> Options:
        rnd = self._random
        options, table = Options(raw_mode=True), BlockBasedOptions()
        options.create_if_missing(True)
        options.set_disable_auto_compactions(rnd.random() < 0.7)
        options.set_level_zero_file_num_compaction_trigger(2)
        options.set_target_file_size_base(rnd.choice((1000, 5000, 1 << 20)))
        options.set_max_bytes_for_level_base(rnd.choice((4000, 1 << 20)))
        options.set_compression_type(rnd.choice((DBCompressionType.none(), DBCompressionType.snappy())))
        table.set_block_size(rnd.choice((64, 300, 4096)))
        options.set_block_based_table_factory(table)
        return options

    def _step(self) -> None:
        rnd, db = self._random, self._database
        choice = rnd.random()
        if choice < 0.6:
            key = self._key()
            known = db.get(key) if rnd.random() < 0.2 else None
            db[key] = rnd.randbytes(rnd.randrange(20)) if known is None else known
        elif choice < 0.8:
            db.delete(self._key())
        elif choice < 0.83:
            low, high = sorted((self._key(), self._key()))
            if low < high:
                db.delete_range(low, high)
        elif choice < 0.9:
            db.flush()
        elif choice < 0.91:
            self._ingest()
        elif choice < 0.91 + self._compactions:
            low, high = sorted((self._key(), self._key()))
            db.compact_range(low, high)
        elif choice > 1 - self._compactions / 3:
            db.compact_range(None, None)

    def _ingest(self) -> None:
        """Add a file that was written outside of the database, whose entries get one sequence number."""
        self._ingested += 1
        path = str(self._directory / f"outside-{self._ingested}.sst")
        writer = SstFileWriter(Options(raw_mode=True))
        writer.open(path)
        for key in sorted({self._key() for _ in range(self._random.randrange(1, 20))}):
            writer[key] = self._random.randbytes(self._random.randrange(20))
        writer.finish()
        self._database.ingest_external_file([path])

    def _key(self) -> bytes:
        rnd = self._random
        tail = b"" if rnd.random() < 0.02 else b"key-%d" % rnd.randrange(self._keys)
        return bytes([rnd.randrange(GROUPS)]) + tail
