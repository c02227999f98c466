"""Check the harness: real Flink restores savepoints of real Flink and reads back what the jobs recorded."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import stateproc
from tests.helpers.fixtures import FIXTURES, Fixture
from tests.helpers.flink.cases import REGISTERED
from tests.helpers.flink.fixture_operators import CLICK, FIRING, OPERATORS, ORDER, of_sql
from tests.helpers.flink.restoration import BACKENDS, PARALLELISMS, Operator, Restored, Spec, State, restore
from tests.helpers.flink.restored_state import differences, in_their_windows, leaves
from tests.helpers.writers.savepoint_comparison import byte_differences

pytestmark = pytest.mark.flink

RELEASES = ("1.20", "2.3")
Results = Callable[[str], dict[str, Restored]]


@dataclass(frozen=True)
class Case:
    """A fixture, restored by the release that wrote it unless `written` names another."""

    fixture: str
    backends: tuple[str, ...] = BACKENDS
    parallelisms: tuple[int, ...] = (2,)
    written: str | None = None
    by: tuple[str, ...] = RELEASES

    def opened(self, release: str) -> Fixture:
        path = FIXTURES / (self.written or release) / self.fixture
        return Fixture(path, json.loads((path / "manifest.json").read_text()))

    @property
    def name(self) -> str:
        return f"{self.written}-{self.fixture}" if self.written else self.fixture


CASES = (
    Case("kitchen-hashmap-canonical", parallelisms=PARALLELISMS),
    Case("windows-rocksdb-canonical", parallelisms=PARALLELISMS),
    Case("operators-rocksdb-canonical", parallelisms=PARALLELISMS),
    Case("corners-hashmap-canonical", parallelisms=PARALLELISMS),
    Case("kafka-rocksdb-canonical", parallelisms=PARALLELISMS),
    Case("edges-rocksdb-canonical", parallelisms=PARALLELISMS),
    Case("kitchen-rocksdb-canonical-snappy"),
    Case("operators-hashmap-canonical-snappy"),
    Case("tiny-hashmap-canonical-1024"),
    Case("kitchen-hashmap-native", ("hashmap",)),
    Case("tiny-rocksdb-native", ("rocksdb",)),
    Case("kitchen-hashmap-checkpoint", ("hashmap",)),
    Case("kitchen-hashmap-canonical", written="1.13", by=("2.3",)),
    Case("windows-rocksdb-canonical", written="1.13", by=("2.3",)),
    Case("kitchen-rocksdb-canonical", written="1.20", by=("2.3",)),
)
BY_RELEASE = [
    pytest.param(release, case, id=f"{release}-{case.name}")
    for release in RELEASES
    for case in CASES
    if release in case.by
]


EXPRESSIONS = (
    *("BOOLEAN", "BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "CHAR", "STRING", "VOID", "BIG_DEC", "BIG_INT"),
    *("DATE", "LOCAL_DATE", "LOCAL_TIME", "LOCAL_DATE_TIME", "INSTANT", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP"),
    *("PRIMITIVE_ARRAY(INT)", "BYTES", "BASIC_ARRAY(LONG)", "OBJECT_ARRAY(POJO(restoring.Shapes$Point))"),
    *("LIST(STRING)", "MAP(STRING, LIST(LONG))", "TUPLE(INT, TUPLE(STRING, LONG))", "EITHER(STRING, LONG)"),
    *("ROW(INT, STRING)", "ROW(a: INT, b: ROW(c: STRING))", "NULLABLE(LONG)", "NULLABLE_PADDED(LONG)"),
    *("POJO(restoring.Shapes$Wide)", "POJO(restoring.Shapes$Amounts)", "POJO(fixtures.Big$Customer)"),
    *("ENUM(restoring.Shapes$Level)", "GENERIC(java.util.UUID)", "CLASS(org.apache.flink.types.LongValue)"),
    *("AVRO_SPECIFIC(fixtures.Corners$Sighting)", f"AVRO_GENERIC('{CLICK}')", f"STREAM_RECORD({ORDER})"),
    *("SQL('ROW<a BIGINT NOT NULL, b ARRAY<STRING>, c MAP<INT, DECIMAL(20, 2)>>')", "SQL('TIMESTAMP(3)')"),
    *("EXTERNAL('STRING')", "SERIALIZER(org.apache.flink.api.common.typeutils.base.LongValueSerializer)"),
    *("VOID_NAMESPACE", "TIME_WINDOW", "GLOBAL_WINDOW"),
)
"""One of each kind of type expression; `SET` is only in Flink 2."""


def expressions(release: str) -> list[str]:
    return [*EXPRESSIONS, *(["SET(STRING)"] if release == "2.3" else [])]


SUBCLASSES_SEEN = {("edges-generic", "animal", "value"): "reconfigured"}
"""RocksDB's serializer had met an unregistered subclass before the snapshot; a new one has not."""


def spec_of(case: Case, release: str, operators: tuple[Operator, ...] | None = None) -> Spec:
    fixture = case.opened(release)
    job = fixture.manifest["job"]
    return Spec(
        case.name,
        fixture.snapshot,
        operators or OPERATORS[job],
        case.backends,
        case.parallelisms,
        options=dict(REGISTERED) if job == "edges" else {},
    )


WINDOWS = next(case for case in CASES if case.fixture == "windows-rocksdb-canonical")
RETAKEN = (
    Case("kitchen-hashmap-canonical"),
    Case("windows-rocksdb-canonical"),
    Case("operators-hashmap-canonical"),
    # RocksDB would note the unregistered subclasses that it meets.
    Case("edges-hashmap-canonical", ("hashmap",)),
    Case("kafka-rocksdb-canonical"),
)
SQL = Case("sql-hashmap-canonical")
WRONG = Case("tiny-hashmap-canonical-inline", parallelisms=(1,))
TYPED = Case("operators-hashmap-canonical", ("hashmap",), (1,))
EVOLVED = Case("edges-hashmap-canonical")


def misplaced(case: Case, release: str, copy: Path) -> Path:
    """A copy in which the key "mate" is called "mati", in the key group of "mate"."""
    shutil.copytree(case.opened(release).snapshot, copy)
    metadata = (copy / "_metadata").read_bytes()
    tiny = stateproc.open(str(copy), uids={"kitchen-string"})
    (group,) = tiny.state("kitchen-string", "counter").key_groups_of(["mate"]) or ()
    for prefix in (group, group | 0x80):
        metadata = metadata.replace(bytes([prefix]) + b"\x05mate\0", bytes([prefix]) + b"\x05mati\0")
    (copy / "_metadata").write_bytes(metadata)
    return copy


def specs(release: str, folder: Path) -> list[Spec]:
    """All that one JVM restores."""
    path = SQL.opened(release).snapshot
    hashes = {state.name: state.operator.operator_id for state in stateproc.open(path).states}
    tiny = OPERATORS["tiny"][0]
    mistyped = replace(tiny, states=[replace(tiny.states[1], type="STRING"), *tiny.states[2:]])
    unknown = replace(tiny, states=[State("counter", "value", "POJO(fixtures.Missing)")])
    wider = CLICK.replace('"fields": [', '"fields": [{"name": "more", "type": "int", "default": 7}, ')
    avro = replace(OPERATORS["edges"][2], states=[State("generic-record", "value", f"AVRO_GENERIC('{wider}')")])
    typed = [State(f"state {n}", "operator-list", f"LIST({text})") for n, text in enumerate(expressions(release))]
    buffers, rules = OPERATORS["operators"]
    return [
        replace(spec_of(TYPED, release, (replace(buffers, states=typed), rules)), name="typed", retake="canonical"),
        *(spec_of(case, release) for case in CASES if release in case.by),
        replace(spec_of(WINDOWS, release, FIRING["windows"]), name="firing"),
        *(replace(spec_of(case, release), name=f"retaken {case.name}", retake="canonical") for case in RETAKEN),
        spec_of(SQL, release, of_sql(hashes)),
        replace(spec_of(WRONG, release), name="misplaced", path=str(misplaced(WRONG, release, folder / "mati"))),
        replace(spec_of(WRONG, release, (mistyped,)), name="mistyped"),
        replace(spec_of(WRONG, release, (unknown,)), name="unknown"),
        replace(spec_of(WRONG, release, (replace(tiny, uid="another"),)), name="left out"),
        replace(spec_of(EVOLVED, release, (*OPERATORS["edges"][:2], avro)), name="evolved", backends=("hashmap",)),
    ]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a release restored, run on first use."""
    done: dict[str, dict[str, Restored]] = {}

    def of(release: str) -> dict[str, Restored]:
        if release not in done:
            folder = tmp_path_factory.mktemp(f"restore-{release}")
            done[release] = restore(release, specs(release, folder), folder / "restored")
        return done[release]

    return of


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_what_is_read_back_is_what_the_job_held(results: Results, release: str, case: Case) -> None:
    restored, expected = results(release)[case.name], list(case.opened(release).expected())
    assert restored.failures() == {}
    for (backend, parallelism), run in restored.runs.items():
        found = in_their_windows(run.contents)
        assert (backend, parallelism, differences(expected, found, parallelism=parallelism)) == (
            backend,
            parallelism,
            [],
        )


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_each_timer_fires_once(results: Results, release: str, case: Case) -> None:
    expected = [line for line in case.opened(release).expected() if line["kind"].startswith("timer-")]
    for run in results(release)[case.name].runs.values():
        assert in_order(run.fired) == in_order(expected)


def in_order(lines: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(line, sort_keys=True) for line in lines)


@pytest.mark.parametrize(("release", "case"), BY_RELEASE)
def test_serializers_are_compatible_as_is_and_no_state_is_left(results: Results, release: str, case: Case) -> None:
    restored = results(release)[case.name]
    others = {at: answer for at, answer in restored.compatibility.items() if answer != "as is"}
    assert others == (SUBCLASSES_SEEN if case.fixture == "edges-rocksdb-canonical" else {})
    assert restored.unread == set()
    states = {(op.uid, state.name) for op in spec_of(case, release).operators for state in op.states}
    assert states <= {(uid, state) for uid, state, part in restored.compatibility if part == "value"}


@pytest.mark.parametrize("release", RELEASES)
def test_flinks_own_window_operator_fires_what_it_was_left(results: Results, release: str) -> None:
    restored = results(release)["firing"]
    assert restored.failures() == {}
    expected = [fired(line) for line in WINDOWS.opened(release).expected() if is_fired(line)]
    for (_, parallelism), run in restored.runs.items():
        assert differences(expected, filter(is_fired, run.contents), parallelism=parallelism) == []


def is_fired(line: dict[str, Any]) -> bool:
    """Global windows have no end."""
    return line["kind"] == "window" and line["uid"] != "global-count"


def fired(line: dict[str, Any]) -> dict[str, Any]:
    """An evicting window hands its elements out without their timestamps."""
    evicting = line["uid"] == "tumbling-evict"
    return {**line, "value": [item["value"] for item in line["value"]]} if evicting else line


@pytest.mark.parametrize("case", RETAKEN, ids=lambda case: case.name)
@pytest.mark.parametrize("release", RELEASES)
def test_flink_writes_the_same_bytes_again(results: Results, release: str, case: Case) -> None:
    restored, fixture = results(release)[f"retaken {case.name}"], case.opened(release)
    assert restored.failures() == {}
    for (backend, parallelism), run in restored.runs.items():
        assert run.savepoint is not None
        assert (backend, byte_differences(fixture.snapshot, run.savepoint)) == (backend, [])
        found = in_their_windows(run.contents)
        assert differences(fixture.expected(), found, parallelism=parallelism) == []


@pytest.mark.parametrize("release", RELEASES)
def test_other_bytes_are_reported(tmp_path: Path, release: str) -> None:
    fixture, other = WRONG.opened(release), misplaced(WRONG, release, tmp_path / "mati")
    (operator,) = (op for op in stateproc.open(fixture.snapshot).operators if op.keyed_files)
    names = ("addresses", "counter", "products", "profile", "reduced", "spent", "totals")
    found = [text.partition(": b")[0].partition(": [")[0] for text in byte_differences(fixture.snapshot, other)]
    assert found == [f"{operator.operator_id}: {name}" for name in names]


SQL_STATES = (
    "window-aggs",
    "deduplicate-state",
    "left-records",
    "right-records",
    "distinctAcc_0",
    "data-state-with-append",
)


@pytest.mark.parametrize("release", RELEASES)
def test_states_of_sql_are_read_back(results: Results, release: str) -> None:
    restored, expected = results(release)[SQL.name], list(SQL.opened(release).expected())
    assert restored.failures() == {}
    assert set(restored.compatibility.values()) == {"as is"}
    assert {state for _, state in restored.unread if not state.startswith("_timer_state/")} == {
        "accState",
        "distinctAcc_0_null_state",
    }
    for run in restored.runs.values():
        for name in SQL_STATES:
            ours = {leaves([line["key"], line["namespace"]]): line for line in run.contents if line["state"] == name}
            lines = [line for line in expected if line["state"] == name]
            assert ours.keys() == {leaves([line["key"], line["namespace"]]) for line in lines}
            for line in lines:
                found = leaves(ours[leaves([line["key"], line["namespace"]])]["value"])
                assert set(leaves(line["value"])) <= set(found)


@pytest.mark.parametrize("release", RELEASES)
def test_every_type_expression_is_a_serializer_that_flink_saves(results: Results, release: str) -> None:
    restored = results(release)["typed"]
    assert restored.failures() == {}
    (run,) = restored.runs.values()
    saved = stateproc.open(str(run.savepoint), uids={"buffers", "broadcast-rules"})
    for n, text in enumerate(expressions(release)):
        assert saved.state("buffers", f"state {n}").to_arrow().num_rows == 0, text


@pytest.mark.parametrize("release", RELEASES)
def test_a_key_in_the_key_group_of_another_is_reported(results: Results, release: str) -> None:
    failures = results(release)["misplaced"].failures()
    assert failures.keys() == {"hashmap-1", "rocksdb-1"}
    assert all('the key "mati", but holds nothing where Flink looks' in text for text in failures.values())


@pytest.mark.parametrize("release", RELEASES)
def test_a_wrong_type_is_refused_by_flink(results: Results, release: str) -> None:
    restored = results(release)["mistyped"]
    assert restored.compatibility[("kitchen-string", "counter", "value")] == "incompatible"
    assert restored.failures().keys() == {"hashmap-1", "rocksdb-1"}
    assert all(
        "must not be incompatible with the old state serializer" in text for text in restored.failures().values()
    )


@pytest.mark.parametrize("release", RELEASES)
def test_a_class_that_is_missing_is_named(results: Results, release: str) -> None:
    failures = results(release)["unknown"].failures()
    assert failures.keys() == {"header", "hashmap-1", "rocksdb-1"}
    assert all("fixtures.Missing" in text for text in failures.values())


@pytest.mark.parametrize("release", RELEASES)
def test_an_operator_that_is_left_out_is_refused_by_flink(results: Results, release: str) -> None:
    failures = results(release)["left out"].failures()
    assert failures.keys() == {"hashmap-1", "rocksdb-1"}
    assert all("allowNonRestoredState" in text for text in failures.values())


@pytest.mark.parametrize("release", RELEASES)
def test_an_evolved_schema_is_seen_to_be_migrated(results: Results, release: str) -> None:
    """On heap, where records keep the schema they came with; migrating generic records in RocksDB fails in Flink."""
    restored = results(release)["evolved"]
    assert restored.failures() == {}
    assert restored.compatibility[("edges-avro", "generic-record", "value")] == "after migration"
    (run,) = restored.runs.values()
    assert differences(EVOLVED.opened(release).expected(), run.contents, parallelism=2) == []
