"""Compare what RocksDB itself reads of a database with what stateproc reads: ``--deep``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from stateproc.errors import MissingPackage, SnapshotError
from stateproc.keygroups.ranges import prefix_width
from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.model.operator import Operator
from stateproc.readers.rocksdb import rocksdb_entries
from stateproc.readers.rocksdb.database import DatabaseFile, SstFile, database_files, tables_by_state
from stateproc.readers.rocksdb.key_ranges import key_group_span
from stateproc.readers.rocksdb.native_database import NativeDatabase, NotOpened, has_library, native_database
from stateproc.readers.rocksdb.table import table_properties
from stateproc.verification.problem import Finding, Problem, Severity, VerificationUnit, problem_of

_ZLIB = "Zlib"
_DIFFERENT = (
    "report this as a bug of stateproc with this message; until then let Flink restore the snapshot and take a "
    "canonical savepoint of it"
)
_REFUSED = "RocksDB of Flink would refuse it, too: use a copy or take the snapshot again"


def check_library() -> None:
    """Raise MissingPackage unless rocksdict is installed."""
    if not has_library():
        raise MissingPackage(
            "verifying deeply needs rocksdict, which is not installed",
            advice="pip install 'stateproc[rocksdb]', or verify without it: checksums of RocksDB are checked anyway",
        )


def database_units(operator: Operator, position: int, wanted: Sequence[str]) -> Iterator[VerificationUnit]:
    """Plan opening the RocksDB databases of an operator. ``wanted``: only these states; all if empty."""
    for file in operator.keyed_files:
        for database in file.databases:
            yield VerificationUnit(position, 0, partial(_compared, operator, database, wanted))


def _compared(operator: Operator, handle: IncrementalHandle, wanted: Sequence[str]) -> Iterator[Finding]:
    verify = operator.options.verify
    try:
        files = database_files(handle, operator.location)
        tables = {
            name: found for name, found in tables_by_state(files, verify=verify).items() if not wanted or name in wanted
        }
        with native_database(files, list(tables)) as database:
            for state, own in tables.items():
                yield from _compared_state(operator, handle, files, database, state, own)
    except NotOpened as error:
        text = (
            f"RocksDB does not open the database of key groups {handle.key_groups.start}–{handle.key_groups.stop - 1}"
        )
        where = _manifest(files)
        yield Problem(Severity.DAMAGED, f"{text}: {error}", _REFUSED, operator.display, file=where)
    except SnapshotError as error:
        yield problem_of(error, operator.display)


def _compared_state(
    operator: Operator,
    handle: IncrementalHandle,
    files: Sequence[DatabaseFile],
    database: NativeDatabase,
    state: str,
    tables: Sequence[SstFile],
) -> Iterator[Finding]:
    """Compare the entries of one state.

    RocksDB iterates over them, unless that needs Flink's merge operator or zlib, which rocksdict lacks: then the
    entries that the tables declare are compared with RocksDB's own sum of them.
    """
    found = [table_properties(table.source, verify=operator.options.verify) for table in tables]
    if any(item.merge_operands or item.compression == _ZLIB for item in found):
        ours: int = sum(item.entries for item in found)
        theirs = database.declared(state)
        what = "entries in all tables"
    else:
        width = prefix_width(operator.max_parallelism)
        entries = rocksdb_entries(files, state, handle.key_groups, width, verify=operator.options.verify)
        ours = sum(len(batch) for batch in entries)
        theirs = database.iterated(state, key_group_span(handle.key_groups, width))
        what = "entries"
    if ours != theirs:
        text = f"RocksDB counts {theirs} {what} where stateproc reads {ours}"
        yield Problem(Severity.DAMAGED, text, _DIFFERENT, operator.display, (state,), _manifest(files))


def _manifest(files: Sequence[DatabaseFile]) -> str | None:
    return next((item.source.name for item in files if item.name.startswith("MANIFEST-")), None)
