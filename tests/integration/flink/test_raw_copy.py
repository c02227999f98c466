"""Real Flink restores what was carried over of its snapshots: entries in canonical files, or copies of files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from stateproc.writers.rewrite.ttl import ttl_off, ttl_on, with_ttl, without_ttl
from tests.helpers.fixtures import FIXTURES, Fixture, fixtures_in
from tests.helpers.flink.fixture_operators import OPERATORS, TOTALS
from tests.helpers.flink.restoration import HUNDRED_YEARS, Operator, Restored, Spec, State, Timers, restore
from tests.helpers.flink.restored_state import differences, in_their_windows
from tests.helpers.writers.rewritten_snapshots import Rewrite, copied

pytestmark = pytest.mark.flink

RELEASES = ("1.20", "2.3")
BOTH = ("hashmap", "rocksdb")
CHAIN = (
    State("text", "value", "STRING"),
    State("items", "list", "LIST(STRING)"),
    State("entries", "map", "MAP(INT, STRING)"),
    State("sum", "reducing", "LONG"),
    State("totals", "aggregating", TOTALS),
)
JOBS = OPERATORS | {"chain-async": (Operator("async", "STRING", CHAIN, (Timers(),)),)}
Results = Callable[[str], dict[str, Restored]]
NOW = int(time.time() * 1000)
AS_IT_IS = Rewrite()
ON = Rewrite(ttl={"kitchen-string": (with_ttl, lambda state, context: ttl_on(state, context, NOW))})
OFF = Rewrite(ttl={"kitchen-ttl": (without_ttl, ttl_off)})


@dataclass(frozen=True)
class Case:
    """A fixture's snapshot carried over: as entries, changed by ``rewrite``; without one as copies of its files."""

    fixture: str
    rewrite: Rewrite | None = AS_IT_IS
    backends: tuple[str, ...] = BOTH
    parallelism: int = 2
    what: str = ""
    by: tuple[str, ...] = RELEASES

    @property
    def name(self) -> str:
        return f"{self.fixture} {self.what or ('entries' if self.rewrite else 'files')}"


CASES = (
    Case("tiny-rocksdb-native"),
    Case("tiny-rocksdb-full-heaptimers"),
    Case("tiny-rocksdb-changelog"),
    Case("tiny-hashmap-changelog-memory"),
    Case("tiny-hashmap-checkpoint-snappy"),
    Case("kitchen-rocksdb-incremental", parallelism=5),
    Case("kitchen-hashmap-native", parallelism=1),
    Case("windows-hashmap-checkpoint"),
    Case("corners-hashmap-native"),
    Case("operators-hashmap-filemerging"),
    Case("kitchen-rocksdb-incremental", Rewrite(max_parallelism=1024), what="in 1024 key groups"),
    Case("windows-rocksdb-canonical", Rewrite(max_parallelism=7), what="in 7 key groups"),
    Case("tiny-rocksdb-canonical-1024", Rewrite(max_parallelism=128), what="in 128 key groups"),
    Case("tiny-rocksdb-changelog", ON, what="with a time to live"),
    Case("kitchen-hashmap-native", OFF, what="without the time to live it had"),
    # ForSt's asynchronous states, heap timers beside them, become what classic states and backends restore.
    Case("chain-forst", by=("2.3",)),
    Case("kitchen-rocksdb-incremental", None, ("rocksdb",)),
    Case("tiny-rocksdb-filemerging", None, ("rocksdb",)),
    Case("kitchen-hashmap-native", None, ("hashmap",)),
    Case("operators-hashmap-filemerging", None, ("hashmap",)),
)
BY_RELEASE = [
    pytest.param(release, case, id=f"{release}-{case.name}")
    for release in RELEASES
    for case in CASES
    if release in case.by
]


def opened(release: str, case: Case) -> Fixture:
    return fixtures_in(FIXTURES / release / case.fixture)[-1]


def operators(job: str, case: Case) -> tuple[Operator, ...]:
    """The job's operators, with a time to live where it has been switched on, and none where off."""
    ways = {id(ON): {"kitchen-string": HUNDRED_YEARS}, id(OFF): {"kitchen-ttl": None}}.get(id(case.rewrite), {})

    def switched(operator: Operator) -> Operator:
        if operator.uid not in ways:
            return operator
        return replace(operator, states=tuple(replace(state, ttl=ways[operator.uid]) for state in operator.states))

    return tuple(map(switched, JOBS[job]))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Results by case; each release carries over and restores all of its cases at once."""
    root = tmp_path_factory.mktemp("carried")
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            specs = []
            for n, case in enumerate(case for case in CASES if release in case.by):
                fixture, target = opened(release, case), root / release / str(n)
                uids = {line["uid"] for line in fixture.expected() if line["uid"]}
                snapshot = fixture.open()
                for uid in uids:
                    snapshot.operator(uid)
                if case.rewrite is None:
                    copied(snapshot, target)
                else:
                    case.rewrite.write(snapshot, target)
                job = fixture.manifest["job"]
                spec = Spec(case.name, str(target), operators(job, case), case.backends, (case.parallelism,))
                specs.append(spec)
            done[release] = restore(release, specs, root / f"restored-{release}")
        return done[release]

    return of


def expected(fixture: Fixture, case: Case) -> Iterator[dict[str, Any]]:
    """What the job recorded; of states whose time to live was switched on, the moment that all got."""
    for line in fixture.expected():
        if not line["kind"].startswith("timer-"):
            if case.rewrite is OFF and line["uid"] == "kitchen-ttl":
                del line["last_access"]
            if case.rewrite is ON:
                line["last_access"] = [NOW, NOW]
        yield line


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_restored_contents_are_what_the_job_recorded(release: str, case: Case, results: Results) -> None:
    restored = results(release)[case.name]
    assert restored.failures() == {}
    assert restored.unread == set()
    fixture = opened(release, case)
    for (_, parallelism), run in restored.runs.items():
        found = in_their_windows(run.contents)
        assert differences(list(expected(fixture, case)), found, parallelism=parallelism) == []


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_serializers_are_compatible_as_they_are(release: str, case: Case, results: Results) -> None:
    found = results(release)[case.name].compatibility
    assert found
    assert {at: way for at, way in found.items() if way != "as is"} == {}
