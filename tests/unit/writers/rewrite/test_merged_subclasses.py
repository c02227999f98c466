"""Subtasks that wrote a state with serializers of their own: merged where one reads the values of all, else refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pytest

import stateproc
from stateproc import OperatorBootstrap, SavepointWriter, types
from stateproc.cli import main
from stateproc.errors import UnsupportedSnapshot
from stateproc.serializers import Serializer
from stateproc.serializers.pojo.layouts import Subclass
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.snapshot.snapshot import Snapshot
from stateproc.writers.rewrite.merged_header import merged_header
from tests.helpers.cases import CaseSnapshot, case_snapshots

CASES = [one for one in case_snapshots() if one.case == "polymorphic-pojo"]
STATES = ("event", "events", "byName", "holder")
LONG, STRING = types.of("Long"), types.of("String")


@dataclass(frozen=True)
class Verb:
    """A command, and the states that are others afterwards."""

    arguments: tuple[str, ...]
    changed: tuple[str, ...] = ()


VERBS = {
    "max parallelism": Verb(("rescale", "--max-parallelism", "256")),
    "parallelism": Verb(("rescale", "--parallelism", "op=4")),
    "canonical": Verb(("convert", "--to", "canonical")),
    "native-rocksdb": Verb(("convert", "--to", "native-rocksdb")),
    "native-hashmap": Verb(("convert", "--to", "native-hashmap")),
    "ttl of another state": Verb(("ttl", "enable", "--uid", "op", "--state", "byName")),
    "ttl": Verb(("ttl", "enable", "--uid", "op", "--state", "event")),
    "rename": Verb(("rename-state", "--uid", "op", "--state", "byName", "--to", "renamed"), ("byName",)),
    "drop": Verb(("drop-state", "--uid", "op", "--state", "byName"), ("byName",)),
}


def differences(one: CaseSnapshot, path: Path, skipped: tuple[str, ...] = ()) -> list[str]:
    """Compare a written snapshot with what the job recorded of the one that it comes from."""
    written = stateproc.open(path, uids=one.uids, **one.options)
    states = [state for state in one.states() if state.name not in skipped]
    assert states
    return [text for state in states for text in state.differences(state.state(written).to_arrow().to_pylist())]


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
@pytest.mark.parametrize("one", CASES, ids=str)
def test_verbs_keep_all_values(one: CaseSnapshot, verb: Verb, tmp_path: Path) -> None:
    """Also those of other states of the operator."""
    target = tmp_path / "out"
    name, *rest = verb.arguments
    first = [rest.pop(0)] if name == "ttl" else []
    options = [f"--classes={one.options['classes']}"] if "classes" in one.options else []
    assert main([name, *first, one.path, str(target), *rest, "--uids", ",".join(one.uids), *options]) == 0
    assert differences(one, target, verb.changed) == []
    if "renamed" in rest:
        rows = stateproc.open(target, uids=one.uids, **one.options).state("op", "renamed").to_arrow()
        (before,) = (state for state in one.states() if state.name == "byName")
        assert before.differences(rows.to_pylist()) == []


@pytest.mark.parametrize("one", CASES, ids=str)
def test_rows_that_a_function_returns_as_they_are(one: CaseSnapshot, tmp_path: Path) -> None:
    options = {"uids": ",".join(one.uids)}
    if "classes" in one.options:
        options["classes"] = one.options["classes"]
    writer = SavepointWriter.from_existing_savepoint(None, one.path, options)
    names = [state.name for state in one.states() if state.name in STATES]
    for name in names:
        writer.transform_state("op", name, lambda rows: rows)
    assert differences(one, Path(writer.write(tmp_path / "out"))) == []


def test_the_header_lists_the_subclasses_of_all_subtasks() -> None:
    for one, expected in ((CASES[0], {None: {"Cat", "Dog"}}), (CASES[3], {None: {"Cat", "Dog"}, 0: {"Regd"}})):
        operator = one.open().operator("op")
        own = [file.header.states for file in operator.keyed_files if file.header is not None]
        assert len({str(states) for states in own}) == 2
        event = merged_header(operator).info("event").value_serializer
        assert isinstance(event, Pojo)
        found: dict[int | None, set[str]] = {}
        for subclass in event.subclasses:
            found.setdefault(subclass.tag, set()).add(subclass.class_name.partition("$")[2])
        assert found == expected


# --- Serializers that cannot be merged ---------------------------------------------------------------------------

BASE = (("id", STRING),)
DOG, CAT = (Pojo(f"a.{name}", (*BASE, (field, LONG))) for name, field in (("Dog", "age"), ("Cat", "lives")))


def event(*registered: Pojo) -> Pojo:
    return Pojo("a.Event", BASE, tuple(Subclass(one.class_name, one, tag) for tag, one in enumerate(registered)))


ROWS = [
    {
        "key": key,
        "value": {
            "class": ("a.Event", "a.Dog", "a.Cat")[key % 3],
            "id": f"e{key}",
            "age": key if key % 3 == 1 else None,
            "lives": -key if key % 3 == 2 else None,
        },
        "plain": key * 7,
    }
    for key in range(40)
]


def by_subtasks(tmp_path: Path, serializers: tuple[Serializer, Serializer]) -> Snapshot:
    """Return a snapshot of two subtasks, each of which wrote 'event' with a serializer of its own."""
    table = pa.Table.from_pylist(ROWS)
    folders = []
    for number, serializer in enumerate(serializers):
        values = pa.Table.from_pylist([{"key": row["key"], "value": row["value"]} for row in ROWS])
        state = OperatorBootstrap().value_state("event", values, "value", type=serializer)
        state.value_state("plain", table, "plain", type=LONG)
        writer = SavepointWriter.new_savepoint(None).with_operator("op", state).with_parallelism("op", 2)
        folders.append(Path(writer.write(tmp_path / f"subtasks {number}")))
    snapshots = [stateproc.open(folder, uids=["op"]) for folder in folders]
    subtasks = [one.operator("op").metadata.subtasks for one in snapshots]
    for file in folders[1].iterdir():
        if not (folders[0] / file.name).exists():
            shutil.copy(file, folders[0])
    mixed = snapshots[0].operator("op")
    mixed.metadata = replace(mixed.metadata, subtasks=(subtasks[0][0], subtasks[1][1]))
    mixed.__dict__.pop("keyed_files", None)
    return snapshots[0]


def test_tags_in_another_order_are_refused_and_the_advice_helps(tmp_path: Path) -> None:
    source = by_subtasks(tmp_path, (event(DOG, CAT), event(CAT, DOG)))
    expected = {row["key"]: row["value"] for row in ROWS}
    rows = source.state("op", "event").to_arrow().to_pylist()
    assert {row["key"]: row["value"] for row in rows} == expected

    changes: tuple[Callable[[SavepointWriter], SavepointWriter], ...] = (
        lambda writer: writer.with_parallelism("op", 3),
        lambda writer: writer.with_max_parallelism(256),
        lambda writer: writer.with_format("native-rocksdb"),
    )
    for number, change in enumerate(changes):

        def writer(change: Callable[[SavepointWriter], SavepointWriter] = change) -> SavepointWriter:
            return change(SavepointWriter.from_snapshot(None, source))

        with pytest.raises(UnsupportedSnapshot, match="wrote this state with different serializers") as refused:
            writer().write(tmp_path / f"refused {number}")
        advice = refused.value.advice or ""
        assert refused.value.where.state == "event"
        assert "transform_state('op', 'event', lambda rows: rows)" in advice and "drop_state('op', 'event')" in advice
        path = writer().transform_state("op", "event", lambda rows: rows).write(tmp_path / f"anew {number}")
        again = stateproc.open(path, uids=["op"]).operator("op")
        assert {row["key"]: row["value"] for row in again.state("event").to_arrow().to_pylist()} == expected
        assert merged_header(again).different == {}
        path = writer().drop_state("op", "event").write(tmp_path / f"dropped {number}")
        plain = stateproc.open(path, uids=["op"]).state("op", "plain").to_arrow().to_pylist()
        assert {row["key"]: row["value"] for row in plain} == {row["key"]: row["plain"] for row in ROWS}
