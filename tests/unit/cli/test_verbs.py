"""The verbs on snapshots of every kind: what they write, their plans, their JSON and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import stateproc
from stateproc.cli.definitions.writing import VERBS
from stateproc.model.operator import Operator
from stateproc.model.state import State
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.changes import CHANGES, ChangeDefinition
from tests.helpers.command_runs import CommandRun
from tests.helpers.paths import DEMO, FIXTURES, ROOT

Run = Callable[..., CommandRun]
Contents = dict[tuple[str, str], list[str]]
"""(operator id, state) → its rows, without key groups and subtasks."""

KINDS = (
    "1.20/kitchen-hashmap-canonical",
    "1.20/kitchen-rocksdb-incremental",
    *(
        pytest.param(name, marks=pytest.mark.exhaustive)
        for name in (
            "1.20/kitchen-hashmap-checkpoint", "1.20/tiny-rocksdb-native", "1.20/tiny-rocksdb-changelog",
            "1.20/tiny-hashmap-filemerging", "2.3/kitchen-hashmap-native", "1.13/tiny-rocksdb-canonical",
        )
    ),
)  # fmt: skip
COMMANDS = [definition for definition in CHANGES if definition.words]
OF_STATES = [definition for definition in COMMANDS if definition.name not in ("set-offsets", "move-source", "evolve")]


def snapshot_path(name: str) -> str:
    return str(FIXTURES / name / "snapshot")


def contents(snapshot: Snapshot) -> Contents:
    found = {}
    for operator in snapshot.operators:
        for state in operator.states:
            found[operator.operator_id, state.name] = rows_of(state)
    return found


@cache
def contents_of_kind(kind: str) -> Contents:
    """The contents of a fixture, which each verb needs."""
    return contents(stateproc.open(snapshot_path(kind)))


def rows_of(state: State, where: str | None = None) -> list[str]:
    """The rows of a state in one order, without key groups, subtasks and times of last access."""
    table = state.to_arrow(where=where)
    dropped = [name for name in ("key_group", "subtask", "last_access") if name in table.column_names]
    return sorted(repr(ordered(row)) for row in table.drop_columns(dropped).to_pylist())


def ordered(value: Any) -> Any:
    """The value with the entries of maps, whose order is that of the file, in one order."""
    if isinstance(value, dict):
        return {name: ordered(part) for name, part in value.items()}
    if isinstance(value, list):
        parts = [ordered(part) for part in value]
        return sorted(parts, key=repr) if parts and isinstance(parts[0], tuple) else parts
    return tuple(ordered(part) for part in value) if isinstance(value, tuple) else value


def keyed(snapshot: Snapshot, ttl: bool | None = None) -> tuple[Operator, Any]:
    """An operator and one of its keyed states, with time to live, without, or either; skips the test without one."""
    for operator in snapshot.operators:
        for state in operator.keyed_states:
            if ttl is None or state.keyed.ttl is ttl:
                return operator, state
    pytest.skip("no such state")


class Case:
    """A verb on a fixture: its arguments, and the contents that the target has to have."""

    def __init__(self, definition: ChangeDefinition, kind: str) -> None:
        self.snapshot = stateproc.open(snapshot_path(kind))
        self.wanted = dict(contents_of_kind(kind))
        self.checks: Callable[[Snapshot], object] = lambda written: None
        self.arguments: list[str] = getattr(self, definition.name.replace("-", "_"))()

    def convert(self) -> list[str]:
        return ["--to", "native-rocksdb", "--no-compressed", "--rocksdb-options",
                "state.backend.rocksdb.block.blocksize=16kb"]  # fmt: skip

    def rescale(self) -> list[str]:
        uid = self.snapshot.operators[0].operator_id

        def check(written: Snapshot) -> None:
            assert {it.max_parallelism for it in written.operators} == {96}
            assert written.operator(uid).parallelism == 3

        self.checks = check
        return ["--max-parallelism", "96", "--parallelism", f"{uid}=3"]

    def upgrade(self) -> list[str]:
        version = "1.19" if self.snapshot.metadata.version < 5 else "2.1"

        def check(written: Snapshot) -> None:
            assert written.metadata.version == (4 if version == "1.19" else 6)

        self.checks = check
        return ["--flink-version", version]

    def rename_operator(self) -> list[str]:
        operator, _ = keyed(self.snapshot)
        new = "0123456789abcdef" * 2
        self.wanted = {(new if key[0] == operator.operator_id else key[0], key[1]): rows
                       for key, rows in self.wanted.items()}  # fmt: skip
        return ["--uid", operator.operator_id, "--to", new]

    def drop_operator(self) -> list[str]:
        gone = [it.operator_id for it in self.snapshot.operators][:-1]
        self.wanted = {key: rows for key, rows in self.wanted.items() if key[0] not in gone}
        if not gone:
            pytest.skip("one operator")
        return [text for uid in gone for text in ("--uid", uid)]

    def drop_pending(self) -> list[str]:
        rows = [row for row in self.snapshot.pending().to_pylist() if row["status"] == "to commit"]
        if not rows:
            pytest.skip("no sink with something to commit")
        for row in rows:
            self.wanted.pop((self.snapshot.operator(row["operator"]).operator_id, row["state"]), None)
        return [text for uid in sorted({row["operator"] for row in rows}) for text in ("--uid", uid)]

    def drop_state(self) -> list[str]:
        operator, state = keyed(self.snapshot)
        del self.wanted[operator.operator_id, state.name]
        return ["--uid", operator.operator_id, "--state", state.name]

    def rename_state(self) -> list[str]:
        operator, state = keyed(self.snapshot)
        self.wanted[operator.operator_id, "new name"] = self.wanted.pop((operator.operator_id, state.name))
        return ["--uid", operator.operator_id, "--state", state.name, "--to", "new name"]

    def delete(self) -> list[str]:
        """Delete every other key group of one state."""
        operator, state = keyed(self.snapshot)
        kept = rows_of(state, "NOT (key_group % 2 = 0)")
        assert 0 < len(kept) < len(self.wanted[operator.operator_id, state.name])
        self.wanted[operator.operator_id, state.name] = kept
        return ["--uid", operator.operator_id, "--state", state.name, "--where", "key_group % 2 = 0"]

    def update(self) -> list[str]:
        """Set a field of all values of one state."""
        for operator in self.snapshot.operators:
            for name in ("profile", "totals"):
                if any(state.name == name for state in operator.keyed_states):
                    return self._doubled(operator, operator.state(name))
        pytest.skip("no such state")

    def _doubled(self, operator: Operator, state: State) -> list[str]:
        field = "value.orders" if state.name == "profile" else "value.count"
        rows = state.to_arrow().to_pylist()
        name = field.partition(".")[2]
        for row in rows:
            del row["key_group"]
            row.pop("last_access", None)
            row["value"][name] = row["value"][name] * 2
        self.wanted[operator.operator_id, state.name] = sorted(repr(ordered(row)) for row in rows)
        return ["--uid", operator.operator_id, "--state", state.name, "--set", f"{field} = {field} * 2",
                "--where", "true"]  # fmt: skip

    def evolve_type(self) -> list[str]:
        """Write a number as text."""
        for operator in self.snapshot.operators:
            for state in operator.keyed_states:
                if state.kind == "value" and state.keyed.value.type_name in ("Long", "Integer"):
                    return self._as_text(operator, state)
        pytest.skip("no such state")

    def _as_text(self, operator: Operator, state: State) -> list[str]:
        rows = state.to_arrow().to_pylist()
        for row in rows:
            del row["key_group"]
            row.pop("last_access", None)
            row["value"] = str(row["value"])
        self.wanted[operator.operator_id, state.name] = sorted(repr(ordered(row)) for row in rows)
        return ["--uid", operator.operator_id, "--state", state.name, "--to", "String", "--set",
                "value = CAST(value AS VARCHAR)"]  # fmt: skip

    def ttl_enable(self) -> list[str]:
        operator, state = keyed(self.snapshot, ttl=False)

        def check(written: Snapshot) -> None:
            found = written.state(operator.operator_id, state.name)
            assert found.keyed.ttl  # type: ignore[attr-defined]
            assert "2026, 1, 31, 12, 0" in repr(found.to_arrow().column("last_access").to_pylist())

        self.checks = check
        return ["--uid", operator.operator_id, "--state", state.name, "--last-access", "2026-01-31T12:00:00Z"]

    def ttl_disable(self) -> list[str]:
        operator, state = keyed(self.snapshot, ttl=True)

        def check(written: Snapshot) -> None:
            assert not written.state(operator.operator_id, state.name).keyed.ttl  # type: ignore[attr-defined]

        self.checks = check
        return ["--uid", operator.operator_id, "--state", state.name]

    def ttl_purge(self) -> list[str]:
        operator, state = keyed(self.snapshot, ttl=True)
        self.wanted[operator.operator_id, state.name] = []
        return ["--uid", operator.operator_id, "--state", state.name, "--ttl", "1 d", "--now", "2100-01-01T00:00:00Z"]


def _verbs_on_kinds() -> list[Any]:
    """Return every verb on every kind; of the kinds of `make test-fast` it runs one with each verb, in turn."""
    cases = []
    for number, definition in enumerate(OF_STATES):
        for index, kind in enumerate(KINDS):
            name, marks = (kind, ()) if isinstance(kind, str) else (kind.values[0], kind.marks)
            if not marks and index != number % 2:
                marks = (pytest.mark.sampled,)
            cases.append(pytest.param(definition, name, id=f"{definition.name}-{name}", marks=marks))
    return cases


@pytest.mark.parametrize(("definition", "kind"), _verbs_on_kinds())
def test_each_verb_changes_what_it_names(
    run_command: Run, tmp_path: Path, definition: ChangeDefinition, kind: str
) -> None:
    source, target = snapshot_path(kind), tmp_path / "target"
    case = Case(definition, kind)
    verb, *action = definition.words
    line = [verb, *action, source, str(target), *case.arguments, "--json"]
    planned = run_command(*line, "--plan")
    assert planned.status == 0, planned.err
    plan = planned.checked("plan")
    assert not target.exists() and plan["target"] == str(target)
    found = run_command(*line)
    assert found.status == 0, found.err
    report = found.checked("write")
    assert (report["source"], report["target"], report["engine"]) == (plan["source"], str(target), "local")
    assert report["notes"] == plan["notes"]
    assert actions(report) == actions(plan)
    written = stateproc.open(target)
    assert contents(written) == case.wanted
    case.checks(written)


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_equal(run_command: Run, tmp_path: Path, kind: str) -> None:
    source, target = snapshot_path(kind), tmp_path / "target"
    assert run_command("copy", source, str(target)).status == 0
    assert contents(stateproc.open(target)) == contents_of_kind(kind)
    again = run_command("copy", source, str(target))
    assert again.status == 2 and "a snapshot is here already" in again.err
    assert run_command("copy", source, str(target), "--overwrite").status == 0


def test_every_change_with_words_is_a_verb() -> None:
    assert [verb.name for verb in VERBS] == list(dict.fromkeys(["copy", *(item.words[0] for item in COMMANDS)]))
    assert all(verb.examples for verb in VERBS)


def actions(values: dict[str, Any]) -> list[Any]:
    """What a plan or a report says of operators and states."""
    names = ("action", "reasons", "parallelism", "max_parallelism")
    return [
        (item["operator_id"], *(item[name] for name in names), [(it["name"], it["action"]) for it in item["states"]])
        for item in values["operators"]
    ]


def offsets(path: Path) -> Mapping[tuple[str, int], int]:
    rows = stateproc.open(path).offsets().to_pylist()
    return {(row["topic"], row["partition"]): row["offset"] for row in rows}


def test_offsets_are_set_from_arguments_and_a_file(run_command: Run, tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("topic,partition,offset\nshop.orders,0,17\nshop.orders,2,committed\n")
    line = ["set-offsets", str(DEMO), str(tmp_path / "t"), "--uids", "orders-from-kafka", "--uid", "orders-from-kafka"]
    line += ["--file", str(file), "--offsets", "shop.orders:0=18", "--offsets", "returns:0=earliest"]
    line += ["--remove", "shop.orders:1", "--topics", "shop.orders=latest"]
    assert run_command(*line, "--plan", "--json").checked("plan")["totals"]["files_written"] == 2
    found = run_command(*line)
    assert found.status == 0 and "new Kafka offsets" in found.out and "by the local engine" in found.out
    assert offsets(tmp_path / "t") == {
        ("returns", 0): -2, ("shop.orders", 0): 18, ("shop.orders", 2): -3, ("shop.orders", 3): -1,
        ("shop.orders", 4): -1, ("shop.orders", 5): -1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["drop-operator", "--uid", "no-such"], "no operator 'no-such'"),
        (["drop-state", "--uid", "orders-per-customer", "--state", "no-such"], "no keyed state 'no-such'"),
        (["rename-operator", "--uid", "orders-per-customer"], "rename-operator without --to"),
        (["rename-operator", "--uid", "orders-per-customer", "--to", "orders-from-kafka"], "already"),
        (["rescale"], "rescale without a number"),
        (["rescale", "--max-parallelism", "many"], "--max-parallelism many"),
        (["rescale", "--max-parallelism", "40000"], "40000"),
        (["rescale", "--parallelism", "orders-per-customer"], "give UID=N"),
        (["ttl", "enable", "--uid", "orders-per-customer", "--state", "profile", "--ttl", "1 d"], "no option --ttl"),
        (["ttl", "purge", "--uid", "orders-per-customer", "--state", "profile", "--ttl", "1 d"], "has no time to live"),
        (["upgrade", "--flink-version", "3.0"], "'3.0' cannot be written for"),
        (["set-offsets", "--uid", "orders-per-customer", "--all", "latest"], "no state of a KafkaSource"),
        (["set-offsets", "--uid", "orders-from-kafka", "--remove", "a:1"], "no Kafka partition 'a:1'"),
        (["copy", "--master", "local[2]"], "--master local[2] for the local engine"),
    ],
)
def test_errors_end_with_status_2_and_write_nothing(
    run_command: Run, tmp_path: Path, arguments: list[str], message: str
) -> None:
    words = 2 if arguments[0] == "ttl" else 1
    uids = ["--uids", "orders-per-customer,orders-from-kafka"]
    line = [*arguments[:words], str(DEMO), str(tmp_path / "t"), *arguments[words:], *uids]
    for more in ([], ["--plan"]):
        found = run_command(*line, *more)
        assert (found.status, found.out) == (2, "") and message in found.err
    assert list(tmp_path.iterdir()) == []


def test_targets_that_are_taken_or_the_source_are_refused(run_command: Run, tmp_path: Path) -> None:
    source = tmp_path / "source"
    assert run_command("copy", str(DEMO), str(source)).status == 0
    before = sorted(path.name for path in source.iterdir())
    for target in (source, source / "inside", tmp_path):
        found = run_command("copy", str(source), str(target), "--overwrite")
        assert found.status == 2 and "made from" in found.err
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("")
    assert "holds other files" in run_command("copy", str(source), str(tmp_path / "other"), "--plan").err
    assert sorted(path.name for path in source.iterdir()) == before


def test_a_missing_source_ends_with_status_3(run_command: Run, tmp_path: Path) -> None:
    assert run_command("copy", str(tmp_path / "none"), str(tmp_path / "t")).status == 3


def test_json_of_a_plan_is_what_python_gives(run_command: Run, tmp_path: Path) -> None:
    found = run_command("copy", str(DEMO), str(tmp_path / "t"), "--plan", "--json")
    writer = stateproc.SavepointWriter.from_existing_savepoint(None, DEMO)
    assert json.loads(found.out) == writer.plan(tmp_path / "t").to_dict()


@pytest.mark.parametrize("definition", COMMANDS, ids=lambda item: item.name)
def test_each_verb_has_a_page_with_its_arguments(definition: ChangeDefinition) -> None:
    page = (ROOT / "docs" / "commands" / f"{definition.words[0]}.md").read_text(encoding="utf-8")
    assert [field.flag for field in definition.fields if f"`{field.flag}" not in page] == []
