"""Read the snapshots of `tests/cases`: jobs built after what people report in public, run by real Flink.

`tests/cases/<case>/` contains the snapshots as archives, the rows that the job itself recorded (`expected.jsonl`), the
job's sources and `case.json`:

* `title`, `flink`, `uids`: of all snapshots; `classes_only_name` where states can be read without the descriptions of
  classes, which give fields their names;
* `snapshots`: each with `archive`, `path` (in the archive), and where needed `contents` (fields that select its lines
  of `expected.jsonl`, or the name of another file as `file`) and `options` of reading;
* `states`: by `uid/state` the `options` of one state, `select` (`operator_state` for operator state), `unordered` if
  its elements have no order, `classes_only_name` where its keys are bytes without the descriptions of classes, or
  `elsewhere`, the test that compares it, where rows have another shape than lines;
* `refused`: by `uid/state` regular expressions that the `error` and the `advice` of a final refusal match;
* `restores`: what real Flink restores, which `tests/integration/flink/test_case_restores.py` documents.

An option whose value names a file of the case, or a directory in its archives, becomes that path.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import stateproc
from stateproc.model.state import State
from stateproc.options import BY_NAME, Interface
from stateproc.snapshot.selection import StateSelection, select_state
from stateproc.snapshot.snapshot import Snapshot
from tests.helpers.fixture_archives import unpacked
from tests.helpers.paths import CACHE, TESTS
from tests.helpers.value_comparison import time_parts

CASE_SOURCES = TESTS / "cases"
_SQL_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}")
"""What java.sql.Timestamp prints, in the job's time zone: UTC."""
_TIMERS = {
    f"{domain}{dash}timers": domain for domain in ("event", "processing") for dash in (" ", "-")
}  # the names under which jobs record them


@dataclass(frozen=True, eq=False)
class ExpectedState:
    """What one state of one snapshot contains, by the job that wrote it."""

    case: str
    snapshot: CaseSnapshot
    uid: str
    name: str
    lines: tuple[dict[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.snapshot}/{self.uid}.{self.name}"

    @property
    def rules(self) -> dict[str, Any]:
        """What `case.json` says of the state."""
        found: dict[str, Any] = self.snapshot.manifest.get("states", {}).get(f"{self.uid}/{self.name}", {})
        return found

    @property
    def refusal(self) -> dict[str, str] | None:
        """The regular expressions of a final error, if the state has one."""
        found: dict[str, str] | None = self.snapshot.manifest.get("refused", {}).get(f"{self.uid}/{self.name}")
        return found

    @property
    def options(self) -> dict[str, Any]:
        """Options of reading, by their Python names."""
        return self.snapshot.options | self.snapshot.resolved(self.rules.get("options", {}))

    @property
    def selection(self) -> dict[str, str]:
        """Options that select the state, by their Python names."""
        if self.name in _TIMERS:
            return {"uid": self.uid, "timers": _TIMERS[self.name]}
        return {"uid": self.uid, str(self.rules.get("select", "state")): self.name}

    def state(self, snapshot: Snapshot) -> State:
        """Return the state of an opened snapshot."""
        return select_state(snapshot.operator(self.uid), StateSelection.of(self.selection, Interface.PYTHON))

    def python_rows(self) -> list[dict[str, Any]]:
        """Read the state in Python."""
        return list(self.state(self.snapshot.open(**self.options)).to_arrow().to_pylist())

    def arguments(self) -> list[str]:
        """Return the arguments of `stateproc read` for the state."""
        words = ["read", self.snapshot.path, "--format", "jsonl", "--uids", ",".join(self.snapshot.uids)]
        for name, value in (self.options | self.selection).items():
            words += [BY_NAME[name].spelled(Interface.CLI), str(value)]
        return words

    def spark_options(self) -> dict[str, str]:
        """Return the options of the Spark data source for the state."""
        named = self.options | self.selection | {"uids": ",".join(self.snapshot.uids)}
        return {BY_NAME[name].spelled(Interface.SPARK): str(value) for name, value in named.items()}

    def differences(self, rows: list[dict[str, Any]]) -> list[str]:
        """Compare rows with the lines, each line with the row of its key; return what differs."""
        left = list(rows)
        found = []
        for line in self.lines:
            for row in left:
                if self._is_of(row, line):
                    left.remove(row)
                    break
            else:
                near = [row for row in left if _equal(row.get("key"), line["key"], False)][:2]
                found.append(f"expected {json.dumps(line, ensure_ascii=False)}, found {near}")
        return found + [f"found more: {row}" for row in left]

    def _is_of(self, row: dict[str, Any], line: dict[str, Any]) -> bool:
        value = row["timestamp"] if "timestamp" in row and "value" not in row else row.get("value")
        if "namespace" in line and not _equal(row.get("namespace"), line["namespace"], False):
            return False
        return _equal(row.get("key"), line["key"], False) and _equal(
            value, line["value"], self.rules.get("unordered", False)
        )


@dataclass(frozen=True)
class CaseSnapshot:
    """One snapshot of a case."""

    case: str
    index: int

    def __str__(self) -> str:
        return f"{self.case}/{self.entry['path']}"

    @property
    def manifest(self) -> dict[str, Any]:
        """The case's `case.json`."""
        return manifest_of(self.case)

    @property
    def entry(self) -> dict[str, Any]:
        """What `case.json` says of the snapshot."""
        found: dict[str, Any] = self.manifest["snapshots"][self.index]
        return found

    @property
    def path(self) -> str:
        """The unpacked snapshot."""
        return str(unpacked_cases() / self.case / self.entry["path"])

    @property
    def uids(self) -> list[str]:
        """The uids of the job's operators."""
        found: list[str] = self.entry.get("uids", self.manifest.get("uids", []))
        return found

    @property
    def options(self) -> dict[str, Any]:
        """Options of reading all its states, by their Python names."""
        return self.resolved(self.entry.get("options", {}))

    def resolved(self, options: dict[str, Any]) -> dict[str, Any]:
        """Replace the names of files of the case, and of directories in its archives, by their paths."""
        folder, archives = CASE_SOURCES / self.case, unpacked_cases() / self.case

        def resolve(value: Any) -> Any:
            if not isinstance(value, str) or not value:
                return value
            if (folder / value).is_file():
                return str(folder / value)
            return str(archives / value) if (archives / value).is_dir() else value

        return {name: resolve(value) for name, value in options.items()}

    def open(self, **options: Any) -> Snapshot:
        """Open the snapshot under the uids of its job."""
        return stateproc.open(self.path, uids=self.uids, **options)

    def states(self) -> list[ExpectedState]:
        """Return the states of which the job recorded the contents."""
        grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for line in self._lines():
            grouped[(line.get("uid") or line["op"], line["state"])].append(line)
        return [ExpectedState(self.case, self, *name, tuple(lines)) for name, lines in grouped.items()]

    def _lines(self) -> Iterator[dict[str, Any]]:
        wanted = dict(self.entry.get("contents", {}))
        path = CASE_SOURCES / self.case / wanted.pop("file", "expected.jsonl")
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            if all(line.get(name) == value for name, value in wanted.items()):
                yield _with_namespace(line)


def _with_namespace(line: dict[str, Any]) -> dict[str, Any]:
    """Divide a key that a job recorded together with its window."""
    key = line["key"]
    if not isinstance(key, dict) or key.keys() != {"k", "start", "end"}:
        return line
    return line | {"key": key["k"], "namespace": {"start": key["start"], "end": key["end"]}}


@cache
def unpacked_cases() -> Path:
    """Return a folder with every case as a folder, its archives unpacked."""
    return unpacked(CASE_SOURCES, CACHE / "cases")


@cache
def manifest_of(case: str) -> dict[str, Any]:
    """Return the content of a case's `case.json`."""
    found: dict[str, Any] = json.loads((CASE_SOURCES / case / "case.json").read_text(encoding="utf-8"))
    return found


def case_snapshots() -> list[CaseSnapshot]:
    """Return every snapshot of every case."""
    names = sorted(path.parent.name for path in CASE_SOURCES.glob("*/case.json"))
    return [CaseSnapshot(name, index) for name in names for index in range(len(manifest_of(name)["snapshots"]))]


def compared_states() -> list[ExpectedState]:
    """Return every state of every case whose rows are compared with lines."""
    states = (state for snapshot in case_snapshots() for state in snapshot.states())
    return [state for state in states if state.refusal is None and "elsewhere" not in state.rules]


def refused_states() -> list[ExpectedState]:
    """Return every state of every case that no option reads."""
    return [state for snapshot in case_snapshots() for state in snapshot.states() if state.refusal is not None]


def _equal(ours: Any, theirs: Any, unordered: bool) -> bool:
    """Whether a value read equals a recorded one: exact in every value, whatever the form of structs and maps."""
    if isinstance(theirs, dict):
        fields = {name: item for name, item in theirs.items() if name != "$class"}
        return _equal_object(ours, fields, theirs.get("$class"), unordered)
    if isinstance(ours, str) and isinstance(theirs, list) and ours[:1] in "[{":
        return _equal(json.loads(ours), theirs, unordered)
    if isinstance(ours, dict) and not isinstance(theirs, dict) and ours.keys() == {f"f{i}" for i in range(len(ours))}:
        # A tuple by its fields; the Row of one field that PyFlink makes of a key.
        fields = list(ours.values())
        return _equal(fields if isinstance(theirs, list) else fields[0], theirs, unordered) and (
            isinstance(theirs, list) or len(fields) == 1
        )
    if isinstance(theirs, list):
        if isinstance(ours, dict) or _are_pairs(ours):
            return _equal_pairs(ours, theirs)
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return False
        if unordered:
            left = list(ours)
            return all(_removed(left, lambda item, other=other: _equal(item, other, False)) for other in theirs)
        return all(_equal(mine, other, False) for mine, other in zip(ours, theirs, strict=True))
    return _equal_scalar(ours, theirs)


def _are_pairs(value: Any) -> bool:
    """Whether a list is a map: of tuples from Arrow, of objects with key and value from JSON lines."""
    if not isinstance(value, list):
        return False
    return all(
        isinstance(item, tuple) or (isinstance(item, dict) and item.keys() == {"key", "value"}) for item in value
    )


def _pairs_of(value: Any) -> list[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else value
    return [(item["key"], item["value"]) if isinstance(item, dict) else tuple(item) for item in items]


def _equal_pairs(ours: Any, theirs: list[Any]) -> bool:
    if not all(isinstance(item, list) and len(item) == 2 for item in theirs):
        return (
            not isinstance(ours, dict)
            and len(ours) == len(theirs)
            and all(map(_equal, ours, theirs, [False] * len(ours)))
        )
    left = _pairs_of(ours)
    return len(left) == len(theirs) and all(
        _removed(left, lambda pair, key=key, item=item: _equal(pair[0], key, False) and _equal(pair[1], item, False))
        for key, item in theirs
    )


def _removed(items: list[Any], is_it: Any) -> bool:
    """Remove the first item that fits; return whether there was one."""
    for number, item in enumerate(items):
        if is_it(item):
            del items[number]
            return True
    return False


def _equal_object(ours: Any, theirs: dict[str, Any], class_name: Any, unordered: bool) -> bool:
    if isinstance(ours, str) and ours[:1] in "[{":
        ours = json.loads(ours)
    if _are_pairs(ours) and (ours or not theirs):
        pairs = [(str(key) if type(key) is int else key, item) for key, item in _pairs_of(ours)]
        return _equal_pairs(pairs, [[key, item] for key, item in theirs.items()])
    if not isinstance(ours, dict):
        return False
    if class_name is not None and isinstance(ours.get("class"), str):
        # The subclass of a POJO; fields of other subclasses are null.
        if ours["class"].rpartition("$")[2].rpartition(".")[2] != class_name:
            return False
        return all(
            _equal(item, theirs[name], unordered) if name in theirs else item is None
            for name, item in ours.items()
            if name != "class"
        )
    if theirs.keys() <= {"left", "right"} or isinstance(theirs.get("type"), str):
        # A side of an Either, a class of a sealed trait: what belongs to others is null.
        return theirs.keys() <= ours.keys() and all(
            _equal(item, theirs[name], unordered) if name in theirs else item is None for name, item in ours.items()
        )
    return ours.keys() == theirs.keys() and all(_equal(item, theirs[name], unordered) for name, item in ours.items())


def _equal_scalar(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, str) and ours != theirs and ours[:1] == ours[-1:] == '"':
        ours = json.loads(ours)  # JSON text, where the type of a field does not say more
    if isinstance(theirs, str) and theirs.startswith("0x") and isinstance(ours, (bytes, str)):
        return (ours if isinstance(ours, bytes) else base64.b64decode(ours)) == bytes.fromhex(theirs[2:])
    if isinstance(ours, str) and ours == json.dumps(theirs, ensure_ascii=False):
        return True  # JSON text
    if isinstance(ours, str) and isinstance(theirs, str) and _SQL_TIMESTAMP.fullmatch(theirs):
        return ours == theirs or ours.rstrip("Z").rstrip("0") == theirs.replace(" ", "T").rstrip("0")
    if isinstance(ours, (dt.datetime, dt.date, dt.time)):
        ours = ours.isoformat()
    if isinstance(ours, decimal.Decimal):
        return isinstance(theirs, (str, int)) and not isinstance(theirs, bool) and ours == decimal.Decimal(str(theirs))
    if isinstance(ours, bool) or isinstance(theirs, bool) or ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, float) and isinstance(theirs, (int, float)):
        return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        mine, other = time_parts(ours.replace(" ", "T", 1)), time_parts(theirs.replace(" ", "T", 1))
        return mine is not None and mine == other
    if isinstance(ours, str) and isinstance(theirs, int):
        return ours == str(theirs)  # an integer of any size
    return type(ours) is type(theirs) and bool(ours == theirs)
