"""A SQL job and its next version: real Flink runs the old plan, and restores the new one.

The old query sees the first rows, and the new one, after `evolve`, the second: what it prints, after what it prints of
the first rows alone, is what it prints of all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from stateproc import SavepointWriter
from stateproc.query_plans.plan_file import read_plan
from stateproc.query_plans.plan_matching import main_uid
from tests.helpers.flink.compilation import queries_path
from tests.helpers.flink.programs import run_program

RELEASES = {"1.20": ("1.20", "1.20"), "2.3": ("2.3", "2.3"), "1.20 to 2.3": ("1.20", "2.3")}
"""The releases that run the old and the new query."""
NEW_PLANNER = ("2.3", "1.20 to 2.3")
"""Of these those whose new query Flink 2 plans; what Flink 1.20 restores is what `test_evolved_types` shows."""
# Where a savepoint comes from, and the backend that restores it.
SOURCES = {"canonical": "hashmap", "native": "rocksdb"}
VERSIONS = ("old", "new")
Feed = tuple[str, str]
"""A table that emits the rows of a file: its columns, and the mode of its changes."""
Changes = dict[str, list[str]]


class EvolvingJob:
    """Scripts, plans and runs of the job, in one folder. `scripts`: of the old and of the new version."""

    def __init__(self, releases: tuple[str, str], folder: Path, scripts: Sequence[str]) -> None:
        self.releases, self.folder, self._runs = releases, folder, 0
        for version, text in zip(VERSIONS, scripts, strict=True):
            (folder / f"{version}.sql").write_text(text, encoding="utf-8")

    @property
    def moves(self) -> bool:
        """Whether the new query runs with another release."""
        return len(set(self.releases)) > 1

    def do(self, *lines: tuple[str, ...], version: str = "new") -> None:
        """Run lines of planned.Evolving by the release of a version of the query."""
        release = self.releases[version == "new"]
        file = self.folder / f"lines-{self._runs}"
        self._runs += 1
        file.write_text("".join("\t".join(line) + "\n" for line in lines))
        run_program(queries_path(release), "planned.Evolving", self.folder / "flink.log", file)

    def begin(self, feed: Callable[..., None], first: Any, second: Any) -> None:
        """Run the old query over the first rows, and the new one over these (`before`) and over all (`all`).

        `feed` is given the job, a version of the query, 0 or 1, and parts of the rows that its sources will emit.
        """
        feed(self, 0, first)
        self.do(self.compile("old"), self.run("old", "rocksdb", "old", taken=self.path("taken")), version="old")
        feed(self, 1, first)
        self.do(self.compile("new"), self.run("new", "hashmap", "before"))
        feed(self, 1, first, second)
        self.do(self.run("new", "hashmap", "all"))

    def go_on(self, feed: Callable[..., None], second: Any, evolve: Callable[[SavepointWriter], object]) -> None:
        """Write savepoints of the new query from each kind of source, and run it over the second rows."""
        for form in SOURCES:
            writer = self.writer(form)
            evolve(writer)
            writer.write(self.path(f"evolved-{form}"))
        feed(self, 1, second)
        self.do(*(self.run("new", to, f"new-{form}", self.path(f"evolved-{form}")) for form, to in SOURCES.items()))

    def error_without_evolve(self, feed: Callable[..., None], second: Any) -> str:
        """Run the new query from the savepoint of the old one as it is; return why Flink does not."""
        feed(self, 1, second)
        self.do(self.run("new", "hashmap", "untouched", self.snapshot("canonical")))
        return Path(self.path("untouched.error")).read_text()

    def check(self, sinks: Collection[str], shown: Callable[..., object] | None = None) -> None:
        """Fail unless sinks have what the new query prints of all rows; `shown`: what of the changes of a sink."""
        shown = shown or (lambda name, *changes: table(*changes))
        before, whole = self.changes("before"), self.changes("all")
        for form in SOURCES:
            new = self.changes(f"new-{form}")
            found = {name: shown(name, before.get(name, []), new.get(name, [])) for name in sinks}
            assert found == {name: shown(name, whole.get(name, [])) for name in sinks}, form
            # Both parts of the rows matter.
            for part in (before, new):
                assert all(Counter(whole[name]) != Counter(part.get(name, [])) for name in sinks), form

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def compile(self, version: str) -> tuple[str, ...]:
        return "compile", self.path(f"{version}.sql"), self.path(f"{version}.json")

    def run(self, version: str, backend: str, out: str, savepoint: str = "-", taken: str = "-") -> tuple[str, ...]:
        places = (self.path(f"{version}.json"), self.path(f"{version}.sql"), backend, self.path(out), savepoint, taken)
        return "run", *places

    def snapshot(self, form: str) -> str:
        """The savepoint of the old query: canonical or native."""
        return self.snapshot_of("old", form)

    def snapshot_of(self, out: str, form: str = "canonical") -> str:
        """The savepoint of a run."""
        return Path(self.path(f"{out}.{form}")).read_text().strip()

    def writer(self, form: str) -> SavepointWriter:
        """A writer of that savepoint, for the release of the new query."""
        made = SavepointWriter.from_existing_savepoint(None, self.snapshot(form))
        return made.with_flink_version(self.releases[1]) if self.moves else made

    def feed(
        self,
        rows: Mapping[str, Sequence[Sequence[object]]],
        *,
        later: Sequence[str] = (),
        deleted: Mapping[str, Sequence[Sequence[object]]] = MappingProxyType({}),
    ) -> None:
        """Write what the sources will emit, and wait for where a row is the word wait.

        `later`: those that begin after the others; `deleted`: after its rows.
        """
        for name, many in rows.items():
            lines = [row if isinstance(row, str) else "\t".join(["+I", *map(_text, row)]) for row in many]
            lines += ["\t".join(["-D", *map(_text, row)]) for row in deleted.get(name, ())]
            (self.folder / name).write_text("\n".join(["wait"] * (name in later) + lines) + "\n", encoding="utf-8")

    def changes(self, out: str) -> Changes:
        """What each sink printed."""
        error = self.folder / f"{out}.error"
        assert not error.exists(), error.read_text()
        found: Changes = {}
        for line in (self.folder / out).read_text(encoding="utf-8").splitlines():
            name, _, change = line.partition("> ")
            found.setdefault(name, []).append(change)
        return found

    def uid_of(self, version: str, name: str, kind: str) -> str:
        """The uid of the nearest operator of a kind before the sink of a query."""
        plan = read_plan(self.path(f"{version}.json"))
        sinks = [one for one in plan.nodes if f"`{name}_out`" in str(one.at("dynamicTableSink", "table", "identifier"))]
        (node,) = sinks
        while node.kind != f"stream-exec-{kind}":
            node = node.sources[0]
        return main_uid(plan, node)


def _text(value: object) -> str:
    return "\\N" if value is None else str(value)


def script(folder: Path, feeds: Mapping[str, Feed], queries: Mapping[str, tuple[str, str]]) -> str:
    """The statements of a version; `queries`: sink → its columns and the query."""
    statements = [
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'rows', 'picked' = 'true', 'path' = '{folder / name}', "
        f"'changelog' = '{changelog}')"
        for name, (columns, changelog) in feeds.items()
    ]
    for name, (columns, _) in queries.items():
        statements.append(
            f"CREATE TABLE {name}_out ({columns}) WITH ('connector' = 'print', 'print-identifier' = '{name}')"
        )
    statements += [f"INSERT INTO {name}_out {query}" for name, (_, query) in queries.items()]
    return "".join(f"{statement};\n" for statement in statements)


def table(*changes: Sequence[str]) -> Counter[str]:
    """The rows that are there after changes."""
    found: Counter[str] = Counter()
    for change in (change for part in changes for change in part):
        found[change[2:]] += 1 if change[0] == "+" else -1
    return +found
