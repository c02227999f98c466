"""Real Flink restores what was carried over of its snapshots: entries in canonical files, or copies of files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from carried_snapshots import Rewrite, copied
from fixtures_check import FIXTURES, Fixture, fixtures_in
from reading_back import differences, in_their_windows
from restore import HUNDRED_YEARS, Operator, Restored, Spec, restore
from restored_fixtures import OPERATORS

from stateproc.writers.time_to_live import ttl_off, ttl_on
from stateproc.writers.time_to_live_header import with_ttl, without_ttl

pytestmark = pytest.mark.flink

RELEASES = ("1.20", "2.3")
BOTH = ("hashmap", "rocksdb")
Results = Callable[[str], dict[str, Restored]]
NOW = int(time.time() * 1000)
AS_IT_IS = Rewrite()
SWITCHED = Rewrite(
    ttl={
        "kitchen-ttl": (without_ttl, ttl_off),
        "kitchen-string": (with_ttl, lambda state, context: ttl_on(state, context, NOW)),
    }
)


@dataclass(frozen=True)
class Case:
    """A fixture's snapshot carried over: as entries, changed by ``rewrite``; without one as copies of its files."""

    fixture: str
    rewrite: Rewrite | None = AS_IT_IS
    backends: tuple[str, ...] = BOTH
    parallelism: int = 2
    what: str = ""

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
    Case("kitchen-hashmap-native", SWITCHED, what="with time to live switched"),
    Case("kitchen-rocksdb-incremental", None, ("rocksdb",)),
    Case("tiny-rocksdb-filemerging", None, ("rocksdb",)),
    Case("kitchen-hashmap-native", None, ("hashmap",)),
    Case("operators-hashmap-filemerging", None, ("hashmap",)),
)
BY_RELEASE = [pytest.param(release, case, id=f"{release}-{case.name}") for release in RELEASES for case in CASES]


def opened(release: str, case: Case) -> Fixture:
    return fixtures_in(FIXTURES / release / case.fixture)[0]


def operators(job: str, case: Case) -> tuple[Operator, ...]:
    """The job's operators, with a time to live where it has been switched on, and none where off."""
    found = OPERATORS[job]
    if case.rewrite is not SWITCHED:
        return found

    def switched(operator: Operator, ttl: int | None) -> Operator:
        return replace(operator, states=tuple(replace(state, ttl=ttl) for state in operator.states))

    ways = {"kitchen-ttl": None, "kitchen-string": HUNDRED_YEARS}
    return tuple(switched(one, ways[one.uid]) if one.uid in ways else one for one in found)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Results by case; each release carries over and restores all of its cases at once."""
    root = tmp_path_factory.mktemp("carried")
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            specs = []
            for n, case in enumerate(CASES):
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


def expected(fixture: Fixture, case: Case) -> Iterable[dict[str, Any]]:
    """What the job told; of states whose time to live was switched on, the moment that all got."""
    for line in fixture.expected():
        if case.rewrite is SWITCHED and line["kind"] != "timer-event" and line["kind"] != "timer-processing":
            if line["uid"] == "kitchen-ttl":
                line.pop("last_access", None)
            if line["uid"] == "kitchen-string":
                line["last_access"] = [NOW, NOW]
        yield line


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_restored_contents_are_what_the_job_told(release: str, case: Case, results: Results) -> None:
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
