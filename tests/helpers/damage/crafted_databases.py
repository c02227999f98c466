"""Databases with crafted tables and logs, and what is expected of reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from tests.helpers.damage.child_processes import WORKERS, Case, run_cases
from tests.helpers.damage.crafted_tables import ROWS, Crafted, internal, log, log_record, new_file
from tests.helpers.rocksdb.databases import contents, inline

Files = dict[str, bytes]


def alone(table: Crafted) -> Files:
    """The table without a MANIFEST: its own properties name the column family."""
    return {"000007.sst": table()}


def listed(table: Crafted) -> Files:
    """The table in a database whose MANIFEST lists it."""
    data = table()
    edit = new_file(7, len(data), internal(b"\0000", 7), internal(b"\0059", 7))
    return {"CURRENT": b"MANIFEST-000001\n", "MANIFEST-000001": log([log_record(edit)]), "000007.sst": data}


def manifest(*records: bytes) -> Files:
    return listed(Crafted()) | {"MANIFEST-000001": log(records)}


def refused(files: Callable[[], Files]) -> None:
    """Reading must fail; what it fails with is judged by who runs this."""
    read = contents(inline(files()), "default")
    raise AssertionError(f"{len(read)} rows were read")


def complete(files: Callable[[], Files], rows: dict[bytes, bytes] = ROWS) -> None:
    """Nothing that matters is wrong."""
    assert contents(inline(files()), "default") == rows


def check(refusals: Iterable[tuple[str, Callable[[], Files]]], *more: Case) -> None:
    """All of it in children whose time and memory are watched, and which find the kernels compiled."""
    intact = partial(complete, partial(listed, Crafted()))
    intact()
    cases = [(name, partial(refused, files)) for name, files in refusals]
    # What the first case of each child takes is not counted.
    failures = run_cases([*[("intact", intact)] * WORKERS, *cases, *more]).failures
    assert not failures, "\n".join(failures)


def shapes(table: Crafted) -> list[tuple[str, Callable[[], Files]]]:
    return [("alone", partial(alone, table)), ("listed", partial(listed, table))]


def tables(*named: tuple[str, Crafted]) -> list[tuple[str, Callable[[], Files]]]:
    return [(f"{name}, {shape}", files) for name, table in named for shape, files in shapes(table)]
