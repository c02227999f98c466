"""Records and interfaces in Kryo 5: descriptions with and without what they say of the class."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateproc.codec.encoding.sized_writers import write_rows
from stateproc.codec.layouts.base import Unwritable
from stateproc.errors import SnapshotError, UnsupportedSnapshot
from stateproc.serializers.core.base import LayoutContext
from stateproc.serializers.java.class_descriptions import parse_classes
from stateproc.serializers.kryo.serializer import Kryo
from tests.helpers.cases import CaseSnapshot, manifest_of
from tests.helpers.paths import TESTS

CASE = "kryo-records"
PREFIX = "com.acme.lab.Case11$"
CLASSES = json.loads((TESTS / "cases" / CASE / "classes.json").read_text())
SNAPSHOTS = [CaseSnapshot(CASE, index) for index in range(len(manifest_of(CASE)["snapshots"]))]
UNSTATED = {name.removeprefix("record "): body for name, body in CLASSES.items()}
UNION = CLASSES | {f"{PREFIX}Event": f"{PREFIX}Paid | {PREFIX}Shipped | {PREFIX}Noted"}


def rows(snapshot: CaseSnapshot, state: str, classes: dict[str, Any]) -> dict[int, Any]:
    opened = snapshot.open(classes=classes)
    return {row["key"]: row["value"] for row in opened.operator("events").state(state).to_arrow().to_pylist()}


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_an_interface_is_a_struct_of_its_classes(snapshot: CaseSnapshot) -> None:
    found = rows(snapshot, "event", UNION)
    assert {key: value["class"] for key, value in found.items()} == {
        key: f"{PREFIX}{'Shipped' if key % 2 else 'Paid'}" for key in range(4)
    }
    assert found[0]["tags"] == ["t", "dev0"] and found[0]["m"] == [("k0", 0)] and found[0]["boxes"] is None
    assert found[1]["boxes"] == [1, 1] and found[1]["tags"] is None and found[1]["to"]["street"] == "Main 1"
    listed = rows(snapshot, "events", UNION)[2]
    assert [item["class"].removeprefix(PREFIX) for item in listed] == ["Paid", "Shipped", "Noted"]
    assert json.loads(listed[2]["about"]) == {"id": "dev2", "tags": ["t", "dev2"], "m": {"k2": 2}, "n": 2}


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_subclasses_that_name_their_interface(snapshot: CaseSnapshot) -> None:
    classes = {f"{name} extends {PREFIX}Event" if "Paid" in name or "Shipped" in name else name: body
               for name, body in CLASSES.items()}  # fmt: skip
    assert rows(snapshot, "event", classes) == {
        key: {name: part for name, part in value.items() if name not in ("text", "about", "kind")}
        for key, value in rows(snapshot, "event", UNION).items()
    }


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_a_class_that_an_interface_leaves_out(snapshot: CaseSnapshot) -> None:
    classes = CLASSES | {f"{PREFIX}Event": f"{PREFIX}Paid | {PREFIX}Noted"}
    with pytest.raises(UnsupportedSnapshot, match="Shipped") as error:
        rows(snapshot, "event", classes)
    assert f'"{PREFIX}Event": "{PREFIX}Paid | {PREFIX}Noted | {PREFIX}Shipped"' in str(error.value.advice)


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
@pytest.mark.parametrize("state", ["paid", "event", "events", "any", "shipped", "basket", "zz-later"])
def test_descriptions_that_do_not_say_what_a_class_is(snapshot: CaseSnapshot, state: str) -> None:
    """The bytes show that it is a record, or the error asks for it."""
    try:
        found = rows(snapshot, state, UNSTATED)
    except SnapshotError as error:
        assert f'"record {PREFIX}' in str(error.advice) and "damaged" not in error.message
    else:
        assert found == rows(snapshot, state, CLASSES)


def test_whole_values_show_what_a_class_is() -> None:
    for state in ("paid", "event", "any", "shipped", "basket"):
        assert rows(SNAPSHOTS[0], state, UNSTATED) == rows(SNAPSHOTS[0], state, CLASSES)


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=str)
def test_a_record_that_is_called_a_class_is_never_other_rows(snapshot: CaseSnapshot) -> None:
    classes = {name.replace("record ", "class "): body for name, body in CLASSES.items()}
    with pytest.raises(SnapshotError):
        rows(snapshot, "paid", classes)


def encoded(state: str, class_name: str) -> list[bytes]:
    """Write a state's values again."""
    column = SNAPSHOTS[0].open(classes=UNION).operator("events").state(state).to_arrow().column("value")
    context = LayoutContext(kryo=5, classes=parse_classes(UNION), tail=True)
    name = f"{PREFIX}{class_name}"
    made = write_rows(Kryo(name, (name,)).layout(context).measure(column.combine_chunks()), len(column))
    return [bytes(made.data[start:end]) for start, end in zip(made.offsets, made.offsets[1:], strict=False)]


@pytest.mark.parametrize(("state", "class_name"), [("address", "Address"), ("ordered", "Ordered")])
def test_records_are_written_as_flink_wrote_them(state: str, class_name: str) -> None:
    table = SNAPSHOTS[0].open(opaque="bytes").operator("events").state(state).to_arrow()
    assert encoded(state, class_name) == table.column("value").to_pylist()


@pytest.mark.parametrize(("state", "class_name"), [("paid", "Paid"), ("event", "Event"), ("shipped", "Shipped")])
def test_other_records_are_not_written(state: str, class_name: str) -> None:
    with pytest.raises(Unwritable, match="read only"):
        encoded(state, class_name)
