"""The plan of a write: what happens to operators and states and why, and what is refused before anything is written."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

import stateproc
from stateproc import InvalidOption, NotFound, OperatorBootstrap, SavepointWriter, UnsupportedSnapshot
from stateproc.errors import SnapshotError
from stateproc.writers.plan.savepoint_plan import SavepointPlan
from tests.helpers.fixture_samples import format_of, mode_of
from tests.helpers.fixtures import Fixture, fixtures
from tests.helpers.page_reports import HOSTILE
from tests.helpers.paths import DEMO
from tests.helpers.sweeps import sample

SOURCE, CUSTOMERS, PRODUCTS = "orders-from-kafka", "orders-per-customer", "revenue-per-product"
KINDS = {item.name: item for item in fixtures() if item.name.startswith(("1.20/", "2.3/"))}


def writer(path: Any = DEMO, **options: Any) -> SavepointWriter:
    return SavepointWriter.from_existing_savepoint(None, path, {"uids": [SOURCE, CUSTOMERS, PRODUCTS], **options})


def operators(plan: SavepointPlan) -> dict[str, tuple[Any, ...]]:
    return {it.display: (it.action.value, it.reasons, it.files_copied, it.files_written) for it in plan.operators}


def states(plan: SavepointPlan, display: str) -> dict[str, tuple[Any, ...]]:
    found = next(it for it in plan.operators if it.display == display)
    return {it.name: (it.kind, it.action.value, it.reasons) for it in found.states}


def valid(plan: SavepointPlan) -> dict[str, Any]:
    """The plan as plain values that fit the schema."""
    values = json.loads(json.dumps(plan.to_dict()))
    schema = json.loads((files("stateproc.cli") / "json_schemas" / "plan.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(values)
    return dict(values)


def test_a_copy_carries_everything_over() -> None:
    plan = writer().plan()
    assert {it[0] for it in operators(plan).values()} == {"carried over"}
    assert plan.totals["files_written"] == plan.totals["bytes_read"] == 0
    stored = [path.stat().st_size for path in Path(DEMO).iterdir() if path.name != "_metadata"]
    assert (plan.totals["files_copied"], plan.totals["bytes_copied"]) == (len(stored), sum(stored))
    assert {it[1] for name in (SOURCE, CUSTOMERS, PRODUCTS) for it in states(plan, name).values()} == {"carried over"}


def test_each_change_has_its_reason() -> None:
    changed = writer()
    changed.set_kafka_offsets(SOURCE, {"shop.orders:0": 5}, remove=["shop.orders:1"])
    changed.drop_state(CUSTOMERS, "profile").rename_state(CUSTOMERS, "spent-per-product", "spent")
    changed.with_parallelism(CUSTOMERS, 4).change_operator_identifier(SOURCE, "source").remove_operator(PRODUCTS)
    plan = changed.plan()
    assert operators(plan) == {
        CUSTOMERS: ("changed", ("2 → 4 subtasks",), 0, 4),
        "source": ("changed", ("renamed from orders-from-kafka",), 0, 2),
        PRODUCTS: ("dropped", (), 0, 0),
    }
    assert states(plan, CUSTOMERS) == {
        "profile": ("value", "dropped", ()),
        "spent": ("map", "changed", ("renamed from spent-per-product", "2 → 4 subtasks")),
        "_timer_state/event_user-timers": ("timers", "carried over", ("2 → 4 subtasks",)),
        "_timer_state/processing_user-timers": ("timers", "carried over", ("2 → 4 subtasks",)),
    }
    assert states(plan, "source") == {"SourceReaderState": ("list", "changed", ("new Kafka offsets",))}
    notes = "\n".join(plan.notes)
    for text in (
        "operators of the uids 'source': Flink refuses state of operators that the job does not have, unless it is "
        "started with --allowNonRestoredState",
        "the uids 'revenue-per-product' start without state",
        "has to have the name 'spent' instead of 'spent-per-product'",
        "the state 'profile' starts empty",
        "serializers of states that are carried over stay as they are",
        "source: new offsets shop.orders:0 845180 → 5",
        "removed partitions that Kafka still has ('shop.orders:1')",
    ):
        assert text in notes
    valid(plan)


def test_key_groups_and_format_change_entries() -> None:
    plan = writer().with_max_parallelism(1024).with_format("native-rocksdb").with_flink_version("1.19").plan()
    reasons = ("128 → 1024 key groups", "format native-rocksdb")
    assert operators(plan)[CUSTOMERS][:2] == ("changed", reasons)
    assert states(plan, CUSTOMERS)["profile"] == ("value", "changed", reasons)
    assert operators(plan)[SOURCE] == ("carried over", (), 0, 0)
    assert (plan.flink_version, plan.format) == ("1.19", "native-rocksdb")
    notes = "\n".join(plan.notes)
    assert "native-rocksdb is restored by EmbeddedRocksDBStateBackend only" in notes
    assert "max parallelism has to be 1024, or not set" in notes
    found = next(it for it in plan.operators if it.display == CUSTOMERS)
    assert found.subtasks_text == "2 of 128 → 2 of 1024" and found.keyed_format == "native-rocksdb"


def test_a_purge_changes_one_state_and_others_are_copied_as_entries() -> None:
    item = KINDS["1.20/kitchen-rocksdb-canonical"]
    snapshot = item.open()
    operator, state = next((it, st) for it in snapshot.operators for st in it.keyed_states if st.keyed.ttl)
    plan = writer(item.snapshot).purge_expired(operator.operator_id, state.name, timedelta(days=1)).plan()
    found = next(it for it in plan.operators if it.operator_id == operator.operator_id)
    by_name = {it.name: it for it in found.states}
    assert by_name[state.name].reasons == ("expired entries dropped",)
    assert {it.reasons for name, it in by_name.items() if name != state.name} == {("entries copied",)}
    assert found.bytes_read > 0 and found.files_written == operator.parallelism


def test_temporary_space_is_named_where_entries_are_divided_anew() -> None:
    subtasks = next(it.parallelism for it in writer().plan().operators if it.display == CUSTOMERS)
    assert subtasks is not None
    for changed, needs in (
        (writer(), False),
        (writer().with_compression(), False),
        (writer().with_format("native-rocksdb"), False),
        (writer().with_parallelism(CUSTOMERS, 1), False),
        (writer().with_parallelism(CUSTOMERS, subtasks + 1), True),
        (writer().with_max_parallelism(1024), True),
    ):
        plan = changed.plan()
        found = next(it for it in plan.operators if it.display == CUSTOMERS)
        assert (found.temporary_bytes > found.bytes_read > 0) is needs
        assert valid(plan)["totals"]["temporary_bytes"] == sum(it.temporary_bytes for it in plan.operators)
        assert ("of temporary space" in plan.totals_text) is needs
    rows = pa.table({"key": pa.array(range(1000), pa.int64()), "value": pa.array(range(1000), pa.int64())})
    new = SavepointWriter.new_savepoint(None).with_operator("new", OperatorBootstrap().value_state("v", rows))
    assert new.plan().totals["temporary_bytes"] == int(1.2 * rows.nbytes)


@pytest.mark.parametrize(
    ("name", "release", "action"),
    [
        ("1.20/kitchen-hashmap-checkpoint", "1.15", "carried over"),
        ("1.20/kitchen-hashmap-checkpoint", "1.14", "changed"),
        ("1.20/kitchen-rocksdb-incremental", "1.15", "carried over"),
        ("1.20/kitchen-rocksdb-incremental", "1.13", "changed"),
        ("1.20/kitchen-rocksdb-changelog", "1.16", "carried over"),
        ("1.20/kitchen-rocksdb-changelog", "1.15", "changed"),
        ("2.3/kitchen-rocksdb-incremental", "2.0", "carried over"),
        ("2.3/kitchen-rocksdb-incremental", "1.20", "changed"),
        ("2.3/kitchen-rocksdb-changelog", "1.20", "changed"),
        ("2.3/kitchen-hashmap-checkpoint", "1.20", "carried over"),
        ("2.3/kitchen-rocksdb-canonical", "1.13", "carried over"),
    ],
)
def test_state_that_a_release_cannot_read_as_it_is_is_written_anew(name: str, release: str, action: str) -> None:
    """Handles have identifiers since 1.15, changelogs another handle since 1.16, and RocksDB 8 of 2.0 other tables."""
    fixture = KINDS[name]
    uids = {line["uid"] for line in fixture.expected()}
    plan = writer(fixture.snapshot, uids=uids).with_flink_version(release).plan()
    found = {it.display: it for it in plan.operators}
    assert {found[uid].action.value for uid in uids} == {action}
    assert {found[uid].reasons for uid in uids} == {("format canonical",) if action == "changed" else ()}


def _kinds(name: str) -> set[Any]:
    item = KINDS[name]
    return {(format_of(item), mode_of(item)), (format_of(item), item.manifest["job"])}


@pytest.mark.parametrize("name", sample(sorted(KINDS), _kinds))
def test_every_kind_of_snapshot_can_be_planned_or_is_refused_with_advice(name: str) -> None:
    item: Fixture = KINDS[name]
    copying = writer(item.snapshot)
    try:
        plan = copying.plan()
    except SnapshotError as error:
        assert "in flight" in str(error) and error.advice
        plan = copying.drop_in_flight_data().plan()
    values = valid(plan)
    assert len(values["operators"]) == len(list(item.open().operators))
    assert {it["action"] for it in values["operators"]} <= {"carried over"}
    assert plan._repr_html_() and repr(plan).startswith("Plan of a savepoint")


def test_impossible_wishes_are_refused(tmp_path: Path) -> None:
    item = KINDS["1.20/kitchen-rocksdb-canonical"]
    operator, state = next((it, st) for it in item.open().operators for st in it.keyed_states if not st.keyed.ttl)
    own = operator.operator_id
    with pytest.raises(InvalidOption, match="parallelism 200"):
        writer(item.snapshot).with_parallelism(own, 200).plan()
    with pytest.raises(InvalidOption, match="time to live"):
        writer(item.snapshot).disable_ttl(own, state.name).plan()
    with pytest.raises(InvalidOption, match="two states called 'x'"):
        names = [st.name for st in operator.keyed_states][:2]
        twice = writer(item.snapshot)
        for name in names:
            twice.rename_state(own, name, "x")
        twice.plan()
    with pytest.raises(UnsupportedSnapshot, match="Kryo"):
        writer(KINDS["1.20/edges-hashmap-canonical"].snapshot).with_flink_version("2.3").plan()
    with pytest.raises(InvalidOption, match="no operators"):
        SavepointWriter.new_savepoint(None).plan()
    with pytest.raises(InvalidOption, match="the path None"):
        writer().write(None)  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        writer().set_kafka_offsets(SOURCE, remove=["shop.orders:77"])
    assert list(tmp_path.iterdir()) == []


def test_the_target_is_checked_and_not_created(tmp_path: Path) -> None:
    target = tmp_path / "target"
    plan = writer().plan(target)
    assert plan.target == str(target) and not plan.replaces_target and not target.exists()
    writer().write(target)
    before = sorted(path.name for path in target.iterdir())
    with pytest.raises(InvalidOption, match="a snapshot is here already"):
        writer().plan(target)
    assert writer().plan(target, "overwrite").replaces_target
    with pytest.raises(InvalidOption, match="made from"):
        writer(target).plan(target, "overwrite")
    with pytest.raises(InvalidOption, match="into its directory"):
        writer(target).plan(target / "inside")
    assert sorted(path.name for path in target.iterdir()) == before


def test_a_writer_shows_its_plan() -> None:
    changed = writer().drop_state(CUSTOMERS, "profile")
    assert "dropped value profile" in repr(changed)
    html = changed._repr_html_()
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", html)]
    assert cells[:10] == [CUSTOMERS, "changed", "–", "2 of 128", "–", "profile value", "dropped", "–", "", ""]
    refused = writer().with_parallelism(CUSTOMERS, 200)
    assert "parallelism 200" in repr(refused) and "parallelism 200" in refused._repr_html_()


def test_names_of_a_plan_are_escaped() -> None:
    html = writer().change_operator_identifier(CUSTOMERS, HOSTILE)._repr_html_()
    assert "<script" not in html


def test_new_offsets_are_written(tmp_path: Path) -> None:
    changed = writer().set_kafka_offsets(SOURCE, {"shop.orders:0": 5, ("new", 1): "latest"}, everywhere="committed")
    changed.set_kafka_offsets(SOURCE, remove=[("shop.orders", 1)]).write(tmp_path / "s")
    written = stateproc.open(tmp_path / "s", uids=[SOURCE])
    offsets = {
        (row["topic"], row["partition"]): (row["offset"], row["subtask"]) for row in written.offsets().to_pylist()
    }
    assert offsets == {
        ("new", 1): (-1, 1),
        ("shop.orders", 0): (5, 0),
        ("shop.orders", 2): (-3, 0),
        ("shop.orders", 3): (-3, 1),
        ("shop.orders", 4): (-3, 0),
        ("shop.orders", 5): (-3, 0),
    }
    coordinator: Any = written.operator(SOURCE).coordinator
    assert coordinator["enumerator_version"] == 2
    assert all(row["assigned"] for row in coordinator["decoded"]["partitions"])
