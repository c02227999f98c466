"""Open a snapshot's RocksDB database with RocksDB itself and count its entries.

This checks what stateproc's own reader cannot: that another implementation accepts MANIFEST, tables, indexes and
properties. It needs rocksdict, of the extra ``rocksdb``.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stateproc.readers.rocksdb.database import DatabaseFile
from stateproc.readers.rocksdb.key_ranges import KeySpan
from stateproc.storage.sources import FileSource
from stateproc.storage.store import StorePath
from stateproc.storage.uris import normalize, scheme_of
from stateproc.storage.writing import writing

_OPEN_FILES = 64
_COPY_BYTES = 8 << 20
_ENTRIES = re.compile(r"# entries=(\d+)")


class NotOpened(Exception):
    """RocksDB does not open the database; its own message says why."""


def has_library() -> bool:
    """Return whether rocksdict, the binding of RocksDB, is installed."""
    # Lazy: start-up; an optional dependency with a native library of 20 MB.
    try:
        import rocksdict  # noqa: F401
    except ImportError:
        return False
    return True


def family_name(state: str) -> bytes:
    """Return the name of a state's column family; characters that UTF-8 does not have are replaced."""
    return state.encode("utf-8", "replace")


def downloaded_bytes(files: Sequence[DatabaseFile]) -> int:
    """Return how many bytes have to be copied, because the files are not tables on a local disk."""
    return sum(item.source.size for item in files if _local_table(item) is None)


class NativeDatabase:
    """A database that RocksDB has opened read-only.

    Args:
        database: Of rocksdict.
        names: The column family of each state.
    """

    def __init__(self, database: Any, names: dict[str, str]) -> None:
        self._database, self._names = database, names

    def iterated(self, state: str, span: KeySpan = (b"", None)) -> int:
        """Iterate over the keys of a span and return their number.

        An iterator ends early at a block that is damaged, without an error.
        """
        start, stop = span
        keys = self._family(state).keys(from_key=start) if start else self._family(state).keys()
        if stop is None:
            return sum(1 for _ in keys)
        number = 0
        for key in keys:
            if key >= stop:
                break
            number += 1
        return number

    def declared(self, state: str) -> int | None:
        """Return the sum of the tables' own counts; None where properties cannot be read.

        RocksDB's estimate of keys is none: it samples tables.
        """
        found = _ENTRIES.search(self._family(state).property_value("rocksdb.aggregated-table-properties") or "")
        return int(found.group(1)) if found else None

    def _family(self, state: str) -> Any:
        return self._database.get_column_family(self._names[state])


@contextmanager
def native_database(files: Sequence[DatabaseFile], states: Sequence[str]) -> Iterator[NativeDatabase]:
    """Open a database read-only with RocksDB while the context is open.

    Local tables are linked into a temporary directory; other files are copied there.

    Raises:
        NotOpened: RocksDB does not accept the files.
        MissingFile, CorruptSnapshot: A file is gone or shorter than its handle says.
    """
    import rocksdict  # Lazy: see has_library

    with tempfile.TemporaryDirectory(prefix="stateproc-verify-") as directory:
        for item in files:
            _provide(item, Path(directory) / item.name)
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
            raise NotOpened(str(error)) from error
        try:
            yield NativeDatabase(database, names)
        finally:
            database.close()


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
        # Windows gives the right to make links to developers and administrators only.
        with suppress(OSError):
            path.symlink_to(local)
            return
    with writing(StorePath(str(path))), path.open("wb") as target:
        for at in range(0, source.size, _COPY_BYTES):
            target.write(source.read(at, min(_COPY_BYTES, source.size - at)))
