"""Real Flink restores what is rewritten of the snapshots of tests/cases, with equal values.

All that one runner restores with one release runs in one JVM.

`restores` of `case.json` lists them, each with

* `job`: its class, for jobs that compare with their variant; `arguments` of the runner; `backends`;
* `snapshot`: the first part of the archive's path that `snapshots` give, by default the first snapshot;
* `verb`: words of the command line that rewrites, or `python`: the name of a function below;
* `release`: the release line of Flink, if it is another than the snapshot's, and `without`: jars that are left out;
* `dropped`: states that the job does not find; `more`: a file of lines that it reports besides;
* `unreadable`: true where there are values that Flink does not read in the untouched snapshot either; it has to find
  in both the same;
* `changed`: states that the job changes when it reads, by triggers that add elements.

A case without them says in `restored_by` which test restores it, or in `not_restored` why none does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stateproc import SavepointWriter
from stateproc.cli import main
from tests.helpers.cases import CASE_SOURCES, CaseSnapshot, case_snapshots, manifest_of
from tests.helpers.flink.case_jobs import (
    Line,
    compares,
    comparing,
    found_by_runs,
    job_path,
    release_of,
    reporting,
)
from tests.helpers.paths import ROOT

pytestmark = pytest.mark.flink

CASES = sorted(path.parent.name for path in CASE_SOURCES.glob("*/case.json"))
RESTORED = [case for case in CASES if manifest_of(case).get("restores")]


def identity(writer: SavepointWriter, snapshot: CaseSnapshot, folder: Path) -> SavepointWriter:
    """Transform every state whose values the job recorded into the same rows."""
    for state in snapshot.states():
        if "timers" not in state.name and "select" not in state.rules:
            writer.transform_state(state.uid, state.name, lambda rows: rows)
    return writer


def evolved(
    writer: SavepointWriter, snapshot: CaseSnapshot, folder: Path, file: str = "evolution.json"
) -> SavepointWriter:
    """Give states the types of the next version of the job: arguments of evolve_type in evolution.json."""
    for arguments in json.loads((CASE_SOURCES / snapshot.case / file).read_text(encoding="utf-8")):
        writer.evolve_type(**arguments)
    return writer


def kinds(writer: SavepointWriter, snapshot: CaseSnapshot, folder: Path) -> SavepointWriter:
    """Make states those of other kinds: arguments of evolve_type in kinds.json."""
    return evolved(writer, snapshot, folder, "kinds.json")


def keyed(writer: SavepointWriter, snapshot: CaseSnapshot, folder: Path) -> SavepointWriter:
    """Give operators the keys of the next version of the job, arguments of evolve_key in keys.json, and more key groups
    than a byte has."""
    for arguments in json.loads((CASE_SOURCES / snapshot.case / "keys.json").read_text(encoding="utf-8")):
        writer.evolve_key(**arguments)
    return writer.with_max_parallelism(256)


def timed(writer: SavepointWriter, snapshot: CaseSnapshot, folder: Path) -> SavepointWriter:
    """Let keys have timers in processing time, which are due, before they get another type."""
    rows = pa.table({"key": pa.array(range(40), pa.int64()), "timestamp": pa.array(range(1000, 1040), pa.int64())})
    between = writer.with_states("op", lambda op: op.processing_time_timers(rows)).write(folder / "timed")
    again = SavepointWriter.from_existing_savepoint(None, str(between), {"uids": ",".join(snapshot.uids)})
    return again.evolve_key("op", "String", assignments="key = 'käufer 😀 ' || key")


Rewrite = Callable[[SavepointWriter, CaseSnapshot, Path], SavepointWriter]
REWRITES: dict[str, Rewrite] = {
    "identity": identity,
    "evolved": evolved,
    "kinds": kinds,
    "keyed": keyed,
    "timed": timed,
}


@dataclass(frozen=True)
class Restore:
    """One entry of `restores`."""

    case: str
    number: int

    @property
    def entry(self) -> dict[str, Any]:
        found: dict[str, Any] = manifest_of(self.case)["restores"][self.number]
        return found

    @property
    def snapshot(self) -> CaseSnapshot:
        of_case = [one for one in case_snapshots() if one.case == self.case]
        wanted = self.entry.get("snapshot")
        return next(one for one in of_case if wanted is None or one.entry["path"].startswith(wanted))

    @property
    def untouched(self) -> str:
        """The first snapshot of the case, as it is."""
        return next(one.path for one in case_snapshots() if one.case == self.case)

    def rewritten(self, target: Path) -> str:
        """Write the snapshot anew as the entry says."""
        one = self.snapshot
        if "python" in self.entry:
            options = {name: value for name, value in one.options.items() if name != "temporal"}
            options["uids"] = ",".join(one.uids)
            writer = SavepointWriter.from_existing_savepoint(None, one.path, options)
            return str(REWRITES[self.entry["python"]](writer, one, target.parent).write(target))
        verb = list(takewhile(lambda word: not word.startswith("--"), self.entry["verb"]))
        words = self.entry["verb"][len(verb) :]
        words += ["--uids", ",".join(one.uids)] if one.uids else []
        for name, value in one.options.items():
            if name in OPTIONS:
                words += [OPTIONS[name], value]
        status = main([*verb, one.path, str(target), "--json", *words])
        assert status == 0, f"{' '.join([*verb, *words])}: exit status {status}"
        return str(target)

    def expected(self) -> dict[tuple[str, ...], Any]:
        """What the job reports by operator, state and key."""
        dropped, empty = self.entry.get("dropped", ()), compares(self.case)
        lines = [
            line
            for state in self.snapshot.states()
            if f"{state.uid}/{state.name}" not in self.entry.get("changed", ())
            and (empty or f"{state.uid}/{state.name}" not in dropped)
            for line in state.lines
        ]
        if "more" in self.entry:
            text = (CASE_SOURCES / self.case / self.entry["more"]).read_text(encoding="utf-8")
            lines += [json.loads(line) for line in text.splitlines()]
        if not compares(self.case):
            return by_key(lines)
        kinds = {line["kind"] for line in lines}
        assert kinds <= {"value", "list", "map", "timer"}, kinds
        return {
            place: "empty" if f"{place[0]}/{place[1]}" in dropped else True
            for place in by_key([line for line in lines if line["kind"] != "timer"])
        }


OPTIONS = {"classes": "--classes", "plugins": "--plugins", "allowed_roots": "--allow-root"}


def by_key(lines: list[Line]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for line in lines:
        key = {"k": line["key"], **line["namespace"]} if "namespace" in line else line["key"]
        place = (line.get("uid") or line["op"], line["state"], json.dumps(key, sort_keys=True))
        value = line["value"]
        found[place] = "empty" if re.match(r"found (null|\[\]|\{\}), not ", str(value)) else value
    return found


def differences(found: list[Line] | str, restore: Restore, untouched: list[Line] | str | None = None) -> list[str]:
    """Compare what a job found with what it has to find, or with what it found in the untouched snapshot."""
    if isinstance(found, str):
        return [found]
    changed = restore.entry.get("changed", ())
    kept = [line for line in found if f"{line.get('uid') or line['op']}/{line['state']}" not in changed]
    ours, theirs = by_key([line for line in kept if line.get("kind") != "timer"]), restore.expected()
    if isinstance(untouched, list):
        before = by_key([line for line in untouched if line.get("kind") != "timer"])
        theirs |= {place: value for place, value in before.items() if str(value).startswith("Flink does not read it")}
    places = sorted(ours.keys() | theirs.keys())
    return [
        f"{place}: {ours.get(place, 'nothing')}, not {theirs.get(place, 'nothing')}"
        for place in places
        if place not in ours or place not in theirs or ours[place] != theirs[place]
    ]


@pytest.mark.parametrize("case", sorted(set(CASES) - set(RESTORED)))
def test_a_case_that_is_not_restored_here_says_why(case: str) -> None:
    manifest = manifest_of(case)
    other = manifest.get("restored_by")
    assert bool(other) != bool(manifest.get("not_restored"))
    assert not other or case in (ROOT / str(other)).read_text(encoding="utf-8")


Group = tuple[str, bool, tuple[str, ...]]
"""Release line, whether the runner is the one that compares, and jars that are left out."""


def _groups() -> dict[Group, list[Restore]]:
    found: dict[Group, list[Restore]] = {}
    for case in RESTORED:
        for number, entry in enumerate(manifest_of(case)["restores"]):
            group = entry.get("release", release_of(case)), compares(case), tuple(entry.get("without", ()))
            found.setdefault(group, []).append(Restore(case, number))
    return found


def _name(group: Group) -> str:
    release, comparing_runner, without = group
    return " without ".join([f"{release} {'compares' if comparing_runner else 'reports'}", *without[:1]])


@dataclass(frozen=True)
class Run:
    """One run of a job; ``untouched``: with the snapshot that was not rewritten."""

    restore: Restore
    backend: str
    snapshot: str
    target: Path
    untouched: bool = False

    @property
    def arguments(self) -> list[str]:
        entry = self.restore.entry
        words = comparing if compares(self.restore.case) else reporting
        arguments = () if self.untouched else entry.get("arguments", ())
        return list(words(entry["job"], self.snapshot, self.target, self.backend, arguments))

    def __str__(self) -> str:
        entry = self.restore.entry
        return f"{self.restore.case}: {' '.join(entry.get('verb', [entry.get('python')]))} on {self.backend}"


def _runs(restores: list[Restore], folder: Path) -> Iterator[Run]:
    """Rewrite snapshots; yield the runs that restore them, and one of each job whose untouched snapshot counts, too."""
    untouched: set[tuple[str, str]] = set()
    for restore in restores:
        entry, place = restore.entry, folder / restore.case / str(restore.number)
        place.mkdir(parents=True)
        path = restore.rewritten(place / "rewritten")
        for backend in entry.get("backends", ["hashmap", "rocksdb"]):
            yield Run(restore, backend, path, place / backend)
        job = restore.case, entry["job"]
        if entry.get("unreadable") and job not in untouched:
            untouched.add(job)
            yield Run(restore, "rocksdb", restore.untouched, place / "untouched", untouched=True)


@pytest.mark.parametrize("group", _groups(), ids=_name)
def test_flink_restores_what_was_rewritten(group: Group, tmp_path: Path) -> None:
    release, _, without = group
    by_path: dict[str, list[Run]] = {}
    for run in _runs(_groups()[group], tmp_path):
        by_path.setdefault(job_path(run.restore.case, release, without), []).append(run)
    found: dict[Run, list[Line] | str] = {}
    for classes, runs in by_path.items():
        of_runs = found_by_runs(classes, [(run.arguments, run.target) for run in runs], tmp_path)
        found |= dict(zip(runs, of_runs, strict=True))
    as_it_was = {(run.restore.case, run.restore.entry["job"]): lines for run, lines in found.items() if run.untouched}
    failures = {}
    for run, lines in found.items():
        if not run.untouched:
            job = run.restore.case, run.restore.entry["job"]
            untouched = as_it_was.get(job) if run.restore.entry.get("unreadable") else None
            failures[str(run)] = differences(lines, run.restore, untouched)[:8]
    assert not {name: problems for name, problems in failures.items() if problems}, json.dumps(failures, indent=1)
