"""Opens a database that was just written with RocksDB itself and counts its entries.

This checks what stateproc's own reader cannot: that another implementation accepts MANIFEST, tables, indexes and
properties. It needs rocksdict, of the extra ``rocksdb``; Flink's RocksDB releases are covered by the tests.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stateproc.errors import Where, WriteFailed
from stateproc.readers.rocksdb import DatabaseFile
from stateproc.storage.filesystem import normalize, scheme_of
from stateproc.storage.sources import FileSource
from stateproc.storage.writing import writing
from stateproc.writers.formats.rocksdb.compression import property_name
from stateproc.writers.formats.rocksdb.manifest import family_name

MAX_ITERATED_ENTRIES = 1_000_000
"""Entries of a database up to which RocksDB iterates over all of them, which takes it up to a second."""
MAX_ITERATED_BYTES = 256 << 20
"""Bytes of a database up to which RocksDB iterates over its entries."""
MAX_DOWNLOADED_BYTES = 256 << 20
"""Bytes of a database's files on no local disk up to which they are downloaded."""
_OPEN_FILES = 64
_COPY_BYTES = 8 << 20
_ENTRIES = re.compile(r"# entries=(\d+)")
_ADVICE = "report this as a bug of stateproc, with this message; the canonical format is not affected"


def has_library() -> bool:
    """Whether rocksdict, the binding of RocksDB, is installed."""
    # Lazy: start-up; an optional dependency with a native library of 20 MB.
    try:
        import rocksdict  # noqa: F401
    except ImportError:
        return False
    return True


def check_with_library(
    files: Sequence[DatabaseFile], entries: Mapping[str, int], file: str, *, compression: str | None = None
) -> None:
    """Open a database read-only with RocksDB and compare its entries per column family with the written ones.

    RocksDB reads MANIFEST and, of each table, footer, index and properties. In a database of up to
    `MAX_ITERATED_ENTRIES` and `MAX_ITERATED_BYTES` it iterates over all entries, which checks the blocks' checksums; in
    a larger one, and in one compressed with zlib, which rocksdict cannot decompress, it adds up what the properties of
    the tables say. A database of which more than `MAX_DOWNLOADED_BYTES` are on no local disk is not checked. Written
    tables hold whole values and no merge operands, so that iterating needs no merge operator, which rocksdict does not
    have.

    Args:
        files: the database's files.
        entries: the number of entries written, by state name.
        file: the snapshot's directory, for errors.
        compression: of the tables, as their properties name it.

    Raises:
        WriteFailed: RocksDB cannot open the database, or counts other entries.
        MissingFile, CorruptSnapshot: a file is gone or shorter than its handle says.
    """
    if sum(item.source.size for item in files if _local_table(item) is None) > MAX_DOWNLOADED_BYTES:
        return
    size = sum(item.source.size for item in files)
    small = size <= MAX_ITERATED_BYTES and sum(entries.values()) <= MAX_ITERATED_ENTRIES
    iterated = small and compression != property_name("ZLIB_COMPRESSION")
    with tempfile.TemporaryDirectory(prefix="stateproc-verify-") as directory:
        for item in files:
            _provide(item, Path(directory) / item.name)
        counts = _counts(directory, list(entries), file, iterated=iterated)
    for state, written in entries.items():
        if counts[state] != written:
            raise WriteFailed(
                f"RocksDB finds {counts[state]} entries where {written} were written",
                where=Where(file=file, state=state),
                advice=_ADVICE,
            )


def _counts(directory: str, states: Sequence[str], file: str, *, iterated: bool) -> dict[str, int | None]:
    """Entries by state as RocksDB counts them; None where a table's properties cannot be read."""
    import rocksdict  # Lazy: see has_library

    options = rocksdict.Options(raw_mode=True)
    options.set_max_open_files(_OPEN_FILES)
    # Where a column family's name is no UTF-8, MANIFEST has a replacement.
    names = {state: family_name(state).decode() for state in states}
    try:
        database = rocksdict.Rdict(
            directory,
            options,
            column_families=dict.fromkeys(names.values(), options),
            access_type=rocksdict.AccessType.read_only(),
        )
    except Exception as error:  # rocksdict raises no class of its own
        raise WriteFailed(
            f"RocksDB cannot open the database that was written: {error}", where=Where(file=file), advice=_ADVICE
        ) from error
    count = _iterated if iterated else _declared
    try:
        return {state: count(database.get_column_family(name)) for state, name in names.items()}
    finally:
        database.close()


def _iterated(family: Any) -> int:
    # An iterator ends early at a block that is damaged, without an error.
    return sum(1 for _ in family.keys())  # noqa: SIM118


def _declared(family: Any) -> int | None:
    """The sum of the tables' own counts. RocksDB's estimate of keys is none: it samples tables."""
    found = _ENTRIES.search(family.property_value("rocksdb.aggregated-table-properties") or "")
    return int(found.group(1)) if found else None


def _local_table(file: DatabaseFile) -> str | None:
    """The path of a table that is a file on a local disk, else None."""
    source = file.source
    if not file.name.endswith(".sst") or not isinstance(source, FileSource) or source.base != 0:
        return None
    return normalize(source.name) if scheme_of(source.name) == "file" else None


def _provide(file: DatabaseFile, path: Path) -> None:
    """Make a file of the database available at ``path``: a link to a local table, else a copy."""
    source = file.source
    source.read(0, 0)  # raises if it is missing or short
    local = _local_table(file)
    if local is not None:
        path.symlink_to(local)
        return
    with writing(str(path)), path.open("wb") as target:
        for at in range(0, source.size, _COPY_BYTES):
            target.write(source.read(at, min(_COPY_BYTES, source.size - at)))
