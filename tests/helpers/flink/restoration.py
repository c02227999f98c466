"""Real Flink restores savepoints and reads all of their state back (see README.md, "Restoring")."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.flink.compilation import jobs_path
from tests.helpers.flink.programs import run_program

BACKENDS = ("hashmap", "rocksdb")
PARALLELISMS = (1, 2, 5)
HUNDRED_YEARS = 36_500 * 86_400_000
"""A time to live within which nothing expires, in milliseconds; that of the fixtures' jobs."""


@dataclass(frozen=True)
class State:
    """A state as a job registers it.

    `kind` is `value`, `list`, `map`, `reducing`, `aggregating` (keyed; the type of the accumulator), or
    `operator-list`, `operator-union`, `broadcast`. `type` is a type expression; of lists it is LIST(…), of maps and
    broadcast states MAP(…, …). `ttl` is a time to live in milliseconds.
    """

    name: str
    kind: str
    type: str
    namespace: str = "VOID_NAMESPACE"
    ttl: int | None = None


@dataclass(frozen=True)
class Timers:
    """A timer service; `namespace` is the type of its namespaces."""

    service: str = "user-timers"
    namespace: str = "VOID_NAMESPACE"


@dataclass(frozen=True)
class Windows:
    """Flink's window operator in event time, sizes in milliseconds; of sessions `size` is the gap.

    `contents` is `list`, `evict` (elements of `type`), `reduce` or `aggregate` (one value of `type`).
    """

    assigner: str
    contents: str
    type: str
    size: int
    slide: int = 0


@dataclass(frozen=True)
class Operator:
    """An operator by uid (or hash): states and timers to read back, or `windows` to fire, or a Kafka source.

    `kafka` is a source with the connector's serializers that notes what it restores; `connected` the connector's own
    source without a broker, whose discovery finds these partitions (topic:partition).

    `key` is the type of its keys, None without keyed state. `non_parallel`, as windows over all elements are: one
    subtask, one key group.
    """

    uid: str | None
    key: str | None = None
    states: Sequence[State] = ()
    timers: Sequence[Timers] = ()
    windows: Windows | None = None
    kafka: bool = False
    connected: Sequence[str] = ()
    uid_hash: str | None = None
    non_parallel: bool = False


@dataclass(frozen=True)
class Spec:
    """A savepoint (a directory, or its `_metadata`), all operators with state in it, and where to restore it.

    With `retake` (`canonical` or `native`) Flink takes a savepoint of what it has restored: `Run.savepoint`. With
    `checkpoint` it takes two checkpoints, of which that is the second, and the job is cancelled: no timer fires.
    `hooks` are the identifiers of hooks on the JobManager (`MasterTriggerRestoreHook`) that the job has; what each
    is restored with, the version and the bytes of a master state, is a line of the kind `master`.
    With `claim` the savepoint is Flink's own from then on, and it removes it when it has a checkpoint.
    """

    name: str
    path: str
    operators: Sequence[Operator]
    backends: Sequence[str] = BACKENDS
    parallelisms: Sequence[int] = PARALLELISMS
    max_parallelism: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    retake: str | None = None
    claim: bool = False
    hooks: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """One restored job: the lines it found, or why Flink refused: the chain of causes, the root last."""

    lines: tuple[dict[str, Any], ...]
    causes: tuple[str, ...]
    savepoint: Path | None = None

    @property
    def error(self) -> str | None:
        """The root cause, None if all went well."""
        return self.causes[-1] if self.causes else None

    @property
    def contents(self) -> list[dict[str, Any]]:
        """The state, in the form of expected.jsonl."""
        return [line for line in self.lines if not line["kind"].startswith("fired-")]

    @property
    def fired(self) -> list[dict[str, Any]]:
        """The timers that fired, as lines of the kinds `timer-event` and `timer-processing`, in their order."""
        fired = [line for line in self.lines if line["kind"].startswith("fired-")]
        return [{**line, "kind": line["kind"].replace("fired-", "timer-")} for line in fired]


@dataclass(frozen=True)
class Restored:
    """A spec's results.

    `runs` by backend and parallelism. `compatibility` says what Flink finds of a job's serializers beside the
    savepoint's: (uid, state, part) → `as is`, `after migration`, `reconfigured` or `incompatible`, where part is
    `key` (its state is None), `namespace`, `map key` or `value`. `unread` are the states in the savepoint that the
    spec does not name, as (uid, state).
    """

    runs: dict[tuple[str, int], Run]
    compatibility: dict[tuple[str, str | None, str], str]
    unread: set[tuple[str, str]]
    header: Run

    def failures(self) -> dict[str, str]:
        """The root causes of what failed, by run; `header` if the headers were not understood."""
        named = {f"{backend}-{parallelism}": run for (backend, parallelism), run in self.runs.items()}
        return {name: run.error for name, run in {"header": self.header, **named}.items() if run.error is not None}


def restore(release: str, specs: Iterable[Spec], root: Path) -> dict[str, Restored]:
    """Has Flink restore each savepoint under each of its backends and parallelisms, all in one JVM.

    A job that takes more than a minute has failed.
    Non-restored state is not allowed, so that every operator with state has to be in the spec. What fails fails
    alone and is reported in its result. `root` is an empty directory to work in.
    """
    specs = list(specs)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    plan = root / "specs.json"
    plan.write_text(json.dumps([asdict(spec) for spec in specs]))
    run_program(jobs_path(release), "restoring.Restorer", root / "flink.log", plan, root)
    return {spec.name: _restored(spec, root / spec.name) for spec in specs}


def _restored(spec: Spec, home: Path) -> Restored:
    header = _run(home / "header")
    compatibility: dict[tuple[str, str | None, str], str] = {}
    unread = set()
    for line in header.lines:
        if line["part"] == "unread":
            unread.add((line["uid"], line["state"]))
        else:
            at = (line["uid"], line["state"], line["part"])
            # Subtasks that do not agree are reported.
            same = compatibility.get(at, line["value"]) == line["value"]
            compatibility[at] = line["value"] if same else f"{compatibility[at]}, {line['value']}"
    runs = {(backend, p): _run(home / f"{backend}-{p}") for backend in spec.backends for p in spec.parallelisms}
    return Restored(runs, compatibility, unread, header)


def _run(path: Path) -> Run:
    error, lines, taken = (path.with_name(f"{path.name}.{ending}") for ending in ("error", "jsonl", "savepoint"))
    if error.is_file():
        return Run((), tuple(json.loads(error.read_text())))
    savepoint = Path(taken.read_text().strip()) if taken.is_file() else None
    return Run(tuple(json.loads(line) for line in lines.read_text().splitlines()), (), savepoint)
