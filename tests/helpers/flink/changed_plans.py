"""Changes of a SQL query whose operators keep their uids, and what real Flink does with the old savepoint.

    python -m tests.helpers.flink.changed_plans 1.20 2.3

runs the old plan over the first rows, and restores the new one from its savepoint, as it is, over the second; and the
new one over all rows. It records plans, savepoints and what came of it in `tests/vectors/changed-plans.tar.xz`:
``right`` if all groups of the second rows have the results that all rows give, ``wrong`` if not, else what Flink threw.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.flink.evolving_job import VERSIONS, EvolvingJob, Feed, script
from tests.helpers.paths import VECTORS

ARCHIVE = VECTORS / "changed-plans.tar.xz"
RIGHT, WRONG = "right", "wrong"

_COLUMNS = "id BIGINT, customer BIGINT, product STRING, note VARCHAR(10), amount DOUBLE, quantity INT"
_ORDERS = f"{_COLUMNS}, proc AS PROCTIME()"
_FEEDS: dict[str, Feed] = {
    "orders": (_ORDERS, "append"),
    "customers": ("customer BIGINT, name STRING, city STRING, PRIMARY KEY (customer) NOT ENFORCED", "upsert"),
}
_FIRST: dict[str, list[tuple[object, ...]]] = {
    "orders": [
        (1, 1, "tea", "b", 10.0, 3), (2, 1, "mate", None, 4.5, 1), (3, 2, "tea", "a", 20.0, 7),
        (5, 2, "tea", "d", 7.0, 2), *((id, 3, "tea", "h", 12.0, 1) for id in (7, 8, 9)),
    ],
    "customers": [(1, "Ann", "Bonn"), (2, "Bob", "Kiel")],
}  # fmt: skip
_SECOND: dict[str, list[tuple[object, ...]]] = {
    "orders": [(6, 1, "tea", "e", 15.0, 4), (1, 2, "mate", "f", 4.0, 9), (2, 1, "tea", "g", 6.0, 1)],
    "customers": [(2, "Bea", "Kiel")],
}
_BY_CUSTOMER = "SELECT customer, {} FROM orders GROUP BY customer"
_JOIN = "SELECT o.id, o.amount, c.name FROM orders AS o {} customers AS c ON o.customer = c.customer"
_NUMBERED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY {}) AS r FROM orders)"


@dataclass(frozen=True)
class Change:
    """A change of a query. The first column of its results says which group a row is of."""

    name: str
    columns: str
    old: str
    new: str
    new_columns: str | None = None
    new_orders: str = _ORDERS
    settings: tuple[str, str] = ("", "")


def _of(name: str, columns: str, form: str, old: str, new: str, **more: Any) -> Change:
    return Change(name, columns, form.format(old), form.format(new), **more)


_TTL = "SET 'table.exec.state.ttl' = '1 d';\n"
_N = "g BIGINT, n BIGINT"
CHANGES = (
    _of("same", _N, _BY_CUSTOMER, "COUNT(*)", "COUNT(*)"),
    _of("alias", _N, _BY_CUSTOMER, "SUM(id) AS a", "SUM(id) AS b"),
    _of("result", _N, _BY_CUSTOMER, "SUM(id) * 2", "SUM(id) * 3"),
    _of("argument", _N, _BY_CUSTOMER, "SUM(id)", "SUM(customer)"),
    _of("function", "g BIGINT, n DOUBLE", _BY_CUSTOMER, "MAX(amount)", "SUM(amount)"),
    _of("added", _N, _BY_CUSTOMER, "COUNT(*)", "COUNT(*), SUM(id)", new_columns="g BIGINT, n BIGINT, m BIGINT"),
    _of("dropped", "g BIGINT, n BIGINT, m BIGINT", _BY_CUSTOMER, "COUNT(*), SUM(id)", "COUNT(*)", new_columns=_N),
    _of("swapped", "g BIGINT, n BIGINT, m BIGINT", _BY_CUSTOMER, "COUNT(*), COUNT(note)", "COUNT(note), COUNT(*)"),
    _of("where", _N, "SELECT customer, COUNT(*) FROM orders WHERE {} GROUP BY customer", "amount > 0", "amount > 9"),
    _of("filter", _N, _BY_CUSTOMER, "COUNT(*) FILTER (WHERE amount > 0)", "COUNT(*) FILTER (WHERE amount > 9)"),
    _of("groups", _N, "SELECT {0}, COUNT(*) FROM orders GROUP BY {0}", "customer", "id"),
    _of("key type", "g STRING, n BIGINT", "SELECT {0}, COUNT(*) FROM orders GROUP BY {0}", "product", "note"),
    _of("distinct", _N, _BY_CUSTOMER, "COUNT(DISTINCT product)", "COUNT(DISTINCT note)"),
    _of("wider sum", "g BIGINT, n INT", _BY_CUSTOMER, "SUM(quantity)", "SUM(quantity)",
        new_columns="g BIGINT, n BIGINT", new_orders=_ORDERS.replace("quantity INT", "quantity BIGINT")),
    _of("wider text", "g BIGINT, n STRING", _BY_CUSTOMER, "MAX(note)", "MAX(note)",
        new_orders=_ORDERS.replace("VARCHAR(10)", "VARCHAR(20)")),
    _of("time to live", _N, _BY_CUSTOMER, "COUNT(*)", "COUNT(*)", settings=("", _TTL)),
    _of("no time to live", _N, _BY_CUSTOMER, "COUNT(*)", "COUNT(*)", settings=(_TTL, "")),
    _of("join kind", "id BIGINT, amount DOUBLE, name STRING", _JOIN, "JOIN", "LEFT JOIN"),
    _of("joined column", "id BIGINT, amount DOUBLE, name STRING", "SELECT o.id, o.amount, c.{} FROM orders AS o "
        "JOIN customers AS c ON o.customer = c.customer", "name", "city"),
    _of("join key", "id BIGINT, k BIGINT, name STRING", "SELECT o.id, o.customer, c.name FROM orders AS o "
        "JOIN customers AS c ON o.{} = c.customer", "customer", "id"),
    _of("first to last", "customer BIGINT, id BIGINT", "SELECT customer, id FROM " + _NUMBERED + " WHERE r = 1",
        "proc ASC", "proc DESC"),
    _of("most", "customer BIGINT, id BIGINT, amount DOUBLE", "SELECT customer, id, amount FROM "
        + _NUMBERED.format("amount DESC") + " WHERE r <= {}", "2", "3"),
    _of("direction", "customer BIGINT, id BIGINT, amount DOUBLE", "SELECT customer, id, amount FROM "
        + _NUMBERED + " WHERE r <= 2", "amount DESC", "amount ASC"),
    _of("over", "customer BIGINT, id BIGINT, n BIGINT", "SELECT customer, id, SUM({}) OVER (PARTITION BY customer "
        "ORDER BY proc) FROM orders", "id", "customer"),
    Change("shape", _N, _BY_CUSTOMER.format("COUNT(*)"), f"SELECT n, COUNT(*) FROM ({_BY_CUSTOMER.format('COUNT(*)')}) "
        "AS t (g, n) GROUP BY n"),
)  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """A change as Flink ran it.

    Attributes:
        name: Which one.
        release: The release.
        folder: Where its ``old.json``, ``new.json`` and ``savepoint`` are.
        outcome: ``right``, ``wrong``, or the exceptions that Flink threw, one in a line.
    """

    name: str
    release: str
    folder: Path = field(repr=False)
    outcome: str = field(repr=False)


def unpacked(file: Path) -> tempfile.TemporaryDirectory[str]:
    """Return a directory with what was recorded in a file; it is removed with the process."""
    folder = tempfile.TemporaryDirectory(prefix="changed-plans-")
    with tarfile.open(file) as archive:
        archive.extractall(folder.name, filter="data")
    return folder


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return unpacked(ARCHIVE)


def recorded() -> Iterator[Recorded]:
    """Yield what was recorded."""
    yield from recorded_in(Path(_folder().name))


def recorded_in(folder: Path) -> Iterator[Recorded]:
    """Yield what was recorded in an archive that is unpacked in a folder."""
    for key, outcome in json.loads((folder / "outcomes.json").read_text()).items():
        release, _, name = key.partition("/")
        yield Recorded(name, release, folder / key, outcome)


def names(file: Path = ARCHIVE) -> list[str]:
    """The keys of what was recorded, without unpacking it."""
    with tarfile.open(file) as archive:
        found = archive.extractfile("outcomes.json")
        assert found is not None
        return list(json.loads(found.read()))


def run(release: str, changes: Sequence[Change], folder: Path) -> dict[str, str]:
    """Let Flink run all changes, below a folder; return what came of each."""
    jobs = {}
    for change in changes:
        own = folder / release / change.name
        own.mkdir(parents=True)
        jobs[change.name] = EvolvingJob((release, release), own, _scripts(change, own))
    whole = {name: [*_FIRST[name], *_SECOND[name]] for name in _FEEDS}
    first, *_ = jobs.values()
    first.do(*(job.compile(version) for job in jobs.values() for version in VERSIONS))
    for job in jobs.values():
        for version in VERSIONS:
            renumber(Path(job.path(f"{version}.json")))

    def run_all(rows: dict[str, list[tuple[object, ...]]], *given: Any) -> None:
        for job in jobs.values():
            job.feed(rows, later=["orders"])
        first.do(*(job.run(*(one(job) if callable(one) else one for one in given)) for job in jobs.values()))

    run_all(_FIRST, "old", "rocksdb", "old", "-", lambda job: job.path("taken"))
    run_all(whole, "new", "rocksdb", "all")
    run_all(_SECOND, "new", "rocksdb", "new", lambda job: job.snapshot("canonical"))
    return {f"{release}/{name}": outcome_of(job) for name, job in jobs.items()}


def renumber(file: Path) -> None:
    """Number the nodes of a plan from 1, as they are in a process that compiles nothing else."""
    plan = json.loads(file.read_text())
    numbers = {node["id"]: at for at, node in enumerate(plan["nodes"], 1)}
    for node in plan["nodes"]:
        node["id"] = numbers[node["id"]]
    for edge in plan["edges"]:
        edge["source"], edge["target"] = numbers[edge["source"]], numbers[edge["target"]]
    file.write_text(json.dumps(plan, indent=1))


def _scripts(change: Change, folder: Path) -> list[str]:
    used = {name: feed for name, feed in _FEEDS.items() if name in change.old}
    made = []
    for at, query in enumerate((change.old, change.new)):
        orders = (change.new_orders if at else _ORDERS, "append")
        columns = change.new_columns if at and change.new_columns else change.columns
        feeds = {**used, "orders": orders}
        made.append(change.settings[at] + script(folder, feeds, {"out": (columns, query)}))
    return made


def outcome_of(job: EvolvingJob) -> str:
    """Return what came of a change whose job ran."""
    error = Path(job.path("new.error"))
    if error.exists():
        return error.read_text()
    now, wanted = (_last(job.changes(out).get("out", [])) for out in ("new", "all"))
    return RIGHT if all(wanted.get(group) == row for group, row in now.items()) and now else WRONG


def _last(changes: Sequence[str]) -> dict[str, list[str]]:
    """The rows of each group, which is the first column, after all changes."""
    found: dict[str, list[str]] = {}
    for change in changes:
        rows = found.setdefault(change[3:].partition(",")[0], [])
        if change[0] == "+":
            rows.append(change[2:])
        elif change[2:] in rows:
            rows.remove(change[2:])
        else:
            rows[:] = []  # It was printed by the old query.
    return {group: sorted(rows) for group, rows in found.items()}


def write(outcomes: dict[str, str], folder: Path, file: Path = ARCHIVE) -> None:
    """Record outcomes, plans and savepoints."""
    with tarfile.open(file, "w:xz", preset=9) as archive:
        _add(archive, "outcomes.json", json.dumps(outcomes, indent=1).encode())
        for key in outcomes:
            for version in ("old", "new"):
                _add(archive, f"{key}/{version}.json", (folder / key / f"{version}.json").read_bytes())
            taken = Path((folder / key / "old.canonical").read_text().strip())
            for file in sorted(taken.iterdir()):
                _add(archive, f"{key}/savepoint/{file.name}", file.read_bytes())


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    item = tarfile.TarInfo(name)
    item.size = len(data)
    archive.addfile(item, io.BytesIO(data))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="changed-plans-"))
    outcomes: dict[str, str] = {}
    for release in sys.argv[1:]:
        outcomes |= run(release, CHANGES, folder)
    for key, outcome in outcomes.items():
        print(f"{key:<30} {outcome.splitlines()[-1][:150]}")
    write(outcomes, folder)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
