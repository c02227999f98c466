"""Rewrites of real Flink's snapshots: what is changed, how a job registers the result, what it has to find."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from stateproc import SavepointWriter, run_job
from stateproc.cli import main
from stateproc.keygroups.operator_ids import operator_id
from tests.helpers.fixtures import CLASSES as FIXTURE_CLASSES
from tests.helpers.fixtures import FIXTURES, Fixture
from tests.helpers.flink.cases import REGISTERED
from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import BACKENDS, HUNDRED_YEARS, Operator, State, Timers

LATER = 4_102_444_800_000
"""2100-01-01, when whatever has a time to live has expired."""
Lines = Iterator[dict[str, Any]]


@dataclass(frozen=True)
class Bootstrap:
    """Rows as CSV that `stateproc bootstrap` adds to the snapshot, and its arguments."""

    rows: str
    arguments: Sequence[str]


Edit = Callable[[SavepointWriter], SavepointWriter] | Sequence[str] | Mapping[str, Any] | Bootstrap
"""Methods of the writer, for a write in Spark; or a verb of the command line with its arguments, for a local one; or
sections of a job, for either, without base and with settings of the target only; or rows to bootstrap.
"""
OF_KITCHEN = [state.name for state in OPERATORS["kitchen"][0].states]
IN_FLIGHT = (Operator("in-flight", "LONG", (State("counter", "value", "LONG"),), (Timers(),)),)


def same(lines: Lines) -> Lines:
    return lines


@dataclass(frozen=True)
class Rewrite:
    """A fixture's snapshot with edits, one write after the other."""

    name: str
    fixture: str
    edits: Sequence[Edit]
    operators: Sequence[Operator] | None = None
    expected: Callable[[Lines], Lines] = same
    backends: tuple[str, ...] = BACKENDS
    by: str = "1.20"
    max_parallelism: int = 128
    keeps_bytes: bool = False
    """Whether the entries must be those of the fixture."""
    reading: dict[str, Any] = field(default_factory=dict, hash=False)
    """Options with which the fixture is opened."""
    hooks: tuple[str, ...] = ()
    """The hooks on the JobManager that the job has."""
    needs_spark: bool = False
    """Whether an edit has a function of DataFrames; all others are written without Spark, too."""

    @property
    def source(self) -> Fixture:
        path = FIXTURES / self.fixture
        return Fixture(path, json.loads((path / "manifest.json").read_text()))

    @property
    def job(self) -> str:
        return str(self.source.manifest["job"])

    @property
    def registered(self) -> Sequence[Operator]:
        """Its operators, as a job registers them."""
        return self.operators or OPERATORS[self.job]

    @property
    def options(self) -> dict[str, str]:
        return dict(REGISTERED) if self.job == "edges" else {}

    def write(self, spark: SparkSession | None, folder: Path) -> Path:
        """The last of the savepoints."""
        path = Path(self.source.snapshot)
        for number, edit in enumerate(self.edits):
            target = folder / f"{self.name}-{number}"
            if callable(edit):
                edit(SavepointWriter.from_existing_savepoint(spark, path, self.reading)).write(target)
            elif isinstance(edit, Mapping):
                settings = {"path": str(target), **edit.get("target", {})}
                job = {"job": self.name, "base": {"path": str(path)}, **edit, "target": settings}
                assert run_job(job, spark).status == "written"
            elif isinstance(edit, Bootstrap):
                rows = target.with_suffix(".csv")
                rows.write_text(edit.rows, encoding="utf-8")
                line = ["bootstrap", str(rows), str(target), "--base", str(path), *edit.arguments]
                assert main([*line, "--json"]) == 0
            else:
                verb, *arguments = edit
                assert main([*verb.split(), str(path), str(target), *arguments, "--json"]) == 0
            path = target
        return path


def ttl_of(uid: str, ttl: int | None) -> tuple[Operator, ...]:
    """The kitchen, with another time to live in one operator."""
    return tuple(
        replace(op, states=[replace(state, ttl=ttl) for state in op.states]) if op.uid == uid else op
        for op in OPERATORS["kitchen"]
    )


def ttl(action: str, uid: str, *arguments: str) -> Edit:
    """A change of the time to live of all states of an operator of the kitchen."""
    states = [text for name in OF_KITCHEN for text in ("--state", name)]
    return [f"ttl {action}", "--uid", uid, *states, *arguments]


def without_times(lines: Lines) -> Lines:
    return ({key: item for key, item in line.items() if key != "last_access"} for line in lines)


def with_times(lines: Lines) -> Lines:
    """All of kitchen-string was used in 2100."""
    for line in lines:
        ours = line["uid"] == "kitchen-string" and not line["kind"].startswith("timer")
        yield {**line, "last_access": [LATER, LATER]} if ours else line


def purged(lines: Lines) -> Lines:
    return (line for line in lines if "last_access" not in line)


def renamed(lines: Lines) -> Lines:
    return ({**line, "uid": "renamed"} if line["uid"] == "kitchen-string" else line for line in lines)


def kept(lines: Lines) -> Lines:
    return (line for line in lines if line["kind"] != "channels")


def longer(rows: DataFrame) -> DataFrame:
    return rows.withColumn("value", F.col("value").cast("long") * 2)


def doubled(lines: Lines) -> Lines:
    return ({**line, "value": 2 * line["value"]} if line["state"] == "int" else line for line in lines)


CLASSES = {
    "fixtures.Edges$Basket": {"items": "list<String>", "counts": "map<String, Long>", "day": "LocalDate"},
    "fixtures.Edges$Generic": {"text": "String", "number": "int", "longs": "long[]"},
}
BASKET = (
    "Pojo fixtures.Edges$Basket {counts: Map<String?, Long>?, day: Kryo java.time.LocalDate, items: List<String?>?}"
)
"""The type that Flink 2.x extracts, where collections are no generic types any more."""


def out_of_kryo(writer: SavepointWriter) -> SavepointWriter:
    """From Kryo 2 to Kryo 5; of a type that stays, only what its snapshot says of Kryo."""
    writer.transform_state("edges-generic", "basket", lambda rows: rows, value_type=BASKET)
    writer.transform_state("edges-generic", "generic", lambda rows: rows.where("false"))
    return writer.with_flink_version("2.3")


def without_generic(lines: Lines) -> Lines:
    return (line for line in lines if line["state"] != "generic")


DESCRIBED = ("--classes", json.dumps(FIXTURE_CLASSES | {
    "fixtures.Edges$Basket": {"items": "List<String>", "counts": "Map<String, Long>", "day": "java.time.LocalDate"},
}))  # fmt: skip
"""The classes of the job whose fields no snapshot contains."""
KITCHEN, EDGES = OPERATORS["kitchen"], OPERATORS["edges"]
HOOKS = ("offsets-hook", "names-hook é", "empty-hook")
COUNTER = (State("counter", "value", "LONG"),)
HOOKED = tuple(Operator(uid, "LONG", COUNTER, (Timers(),)) for uid in ("again", "hooked-text"))


def uids_and_hooks(lines: Lines) -> Lines:
    """The operators of which one has another uid and one is left out; all hooks."""
    uids = {"hooked": "again", "hooked-text": "hooked-text", None: None}
    return ({**line, "uid": uids[line["uid"]]} for line in lines if line["uid"] in uids)


def hooked(writer: SavepointWriter) -> SavepointWriter:
    return writer.change_operator_identifier("hooked", "again").remove_operator("hooked-empty")


WIDER = tuple(
    replace(op, states=[replace(state, type="LONG") if state.name == "int" else state for state in op.states])
    for op in EDGES
)
RENAMED = tuple(replace(op, uid="renamed") if op.uid == "kitchen-string" else op for op in KITCHEN)
HASH = operator_id("kitchen-string")
FIRST, SECOND = OF_KITCHEN[:2]
FEWER = tuple(
    replace(op, states=[replace(state, name={SECOND: "again"}.get(state.name, state.name))
                        for state in op.states if state.name != FIRST]) if op.uid == "kitchen-string" else op
    for op in KITCHEN if op.uid != "kitchen-ttl"
)  # fmt: skip


def fewer(lines: Lines) -> Lines:
    """Without one operator, and without one state of another, of which a second has another name."""
    for line in lines:
        if line["uid"] == "kitchen-ttl" or (line["uid"] == "kitchen-string" and line["state"] == FIRST):
            continue
        ours = line["uid"] == "kitchen-string" and line["state"] == SECOND
        yield {**line, "state": "again"} if ours else line


OTHER_STATES = tuple(
    replace(op, states=[replace(state, name="paid") if state.name == "spent" else state for state in op.states
                        if state.name != "counter"]) if op.uid == "kitchen-string" else op
    for op in KITCHEN
)  # fmt: skip


def renamed_states(writer: SavepointWriter) -> SavepointWriter:
    return writer.drop_state("kitchen-string", "counter").rename_state("kitchen-string", "spent", "paid")


def other_states(lines: Lines) -> Lines:
    """One operator has lost a state, and another state of it has a new name."""
    for line in lines:
        ours = line["uid"] == "kitchen-string"
        if ours and line["state"] == "spent":
            yield {**line, "state": "paid"}
        elif not ours or line["state"] != "counter":
            yield line


_STRING, _LONG = ("--uid", "kitchen-string"), ("--uid", "kitchen-long")
_EVENTS, _PROCESSING = "_timer_state/event_user-timers", "_timer_state/processing_user-timers"
_OF_KEY = ("profile", "counter", "products", "spent", "addresses", "reduced", "totals", _EVENTS, _PROCESSING)
DELETE: tuple[Edit, ...] = (
    ["delete", *_STRING, *(word for state in _OF_KEY for word in ("--state", state)), "--where", "key = '紅茶'"],
    ["delete", *_LONG, "--state", "products", "--flatten", "--where", "list_index % 2 = 0"],
    ["delete", *_LONG, "--state", "addresses", "--flatten", "--where", "map_key % 2 = 0"],
    ["delete", *_LONG, "--state", "profile", "--where", "value.vip"],
)
UPDATE: tuple[Edit, ...] = (
    {
        "changes": [
            {"update": {"uid": "kitchen-long", "state": [state], "set": set_, "where": where, "flatten": flatten}}
            for state, set_, where, flatten in (
                ("profile", ["value.total = value.total * 2", "value.name = NULL"], "value.vip", False),
                ("counter", ["value = 0"], "key > 2", False),
                ("products", ["list_element = list_element || '!'"], "list_index = 1", True),
                ("spent", ["map_value = map_value + 1"], "key < 4", True),
                ("addresses", ["map_value.house = -map_key"], "map_value IS NOT NULL", True),
                ("totals", ["value.count = value.count + 1"], "value.sum > 1", False),
                (_EVENTS, ["timestamp = timestamp + 60000"], "true", False),
            )
        ]
    },
)


EDIT_ELEMENTS: tuple[Edit, ...] = (
    ["delete", "--uid", "buffers", "--state", "split", "--where", "value.customer % 2 = 0"],
    ["delete", "--uid", "buffers", "--state", "union", "--where", "value LIKE 'tea%'"],
    ["delete", "--uid", "broadcast-rules", "--state", "names", "--where", "map_key > 2"],
    ["update", "--uid", "buffers", "--state", "split", "--set", "value.amount = value.amount + 1", "--where", "true"],
    ["update", "--uid", "broadcast-rules", "--state", "rules", "--set", "map_value.product = NULL",
     "--where", "map_key = 'tea'"],
)  # fmt: skip


def edited_elements(lines: Lines) -> Lines:
    """What `EDIT_ELEMENTS` leaves and sets of operator states."""
    for line in lines:
        value = line["value"]
        match line["state"]:
            case "split" if value["customer"] % 2 == 0:
                continue
            case "split":
                line = {**line, "value": {**value, "amount": value["amount"] + 1}}
            case "rules" if line["key"] == "tea":
                line = {**line, "value": {**value, "product": None}}
            case "union" if value.startswith("tea"):
                continue
            case "names" if line["key"] > 2:
                continue
        yield line


def deleted(lines: Lines) -> Lines:
    """One key is gone from one operator, timers included; of another every other element and entry, and some values."""
    for line in lines:
        value, at = line["value"], (line["uid"], line["state"])
        if line["uid"] == "kitchen-string" and line["key"] == "紅茶":
            continue
        if at == ("kitchen-long", "products"):
            value = value[1::2]
        elif at == ("kitchen-long", "addresses"):
            value = [item for item in value if item["key"] % 2]
        elif at == ("kitchen-long", "profile") and value["vip"]:
            continue
        if value or not isinstance(value, list):
            yield {**line, "value": value}


def updated(lines: Lines) -> Lines:
    """What `UPDATE` sets; all else of the operator and of others as it is."""
    for line in lines:
        value, key = line["value"], line["key"]
        match (line["uid"], line["state"]):
            case ("kitchen-long", "profile") if value["vip"]:
                value = {**value, "total": value["total"] * 2, "name": None}
            case ("kitchen-long", "counter") if key > 2:
                value = 0
            case ("kitchen-long", "products"):
                value = [item + "!" if at == 1 else item for at, item in enumerate(value)]
            case ("kitchen-long", "spent") if key < 4:
                value = [{**item, "value": item["value"] + 1} for item in value]
            case ("kitchen-long", "addresses"):
                value = [
                    {**item, "value": item["value"] and {**item["value"], "house": -item["key"]}} for item in value
                ]
            case ("kitchen-long", "totals") if value["sum"] > 1:
                value = {**value, "count": value["count"] + 1}
            case ("kitchen-long", "user-timers") if line["kind"] == "timer-event":
                value += 60_000
        yield {**line, "value": value}


REWRITES: tuple[Rewrite, ...] = (
    Rewrite("rows deleted", "1.20/kitchen-hashmap-canonical", DELETE, expected=deleted),
    Rewrite("operator state edited", "1.20/operators-hashmap-canonical-snappy", EDIT_ELEMENTS,
            expected=edited_elements),
    Rewrite("rows updated", "1.20/kitchen-rocksdb-canonical", UPDATE, expected=updated),
    Rewrite("more key groups", "1.20/kitchen-hashmap-canonical", [lambda w: w.with_max_parallelism(1024)],
            max_parallelism=1024),
    Rewrite("there and back", "1.20/kitchen-rocksdb-canonical",
            [["rescale", "--max-parallelism", "1024"], ["rescale", "--max-parallelism", "128"]], keeps_bytes=True),
    Rewrite("ttl on", "1.20/kitchen-hashmap-canonical",
            [ttl("enable", "kitchen-string", "--last-access", "2100-01-01T00:00:00Z")],
            ttl_of("kitchen-string", HUNDRED_YEARS), with_times),
    Rewrite("ttl off", "1.20/kitchen-hashmap-canonical",
            [ttl("disable", "kitchen-ttl")],
            ttl_of("kitchen-ttl", None), without_times),
    Rewrite("ttl purged", "1.20/kitchen-rocksdb-canonical",
            [ttl("purge", "kitchen-ttl", "--ttl", "1 d", "--now", str(LATER))],
            expected=purged),
    Rewrite("uid of hash", "1.20/kitchen-hashmap-canonical",
            [["rename-operator", "--uid", HASH, "--to", "renamed"]], RENAMED, renamed),
    Rewrite("operators and states", "1.20/kitchen-rocksdb-canonical",
            [["drop-operator", "--uid", "kitchen-ttl"], ["drop-state", "--uid", "kitchen-string", "--state", FIRST],
             ["rename-state", "--uid", "kitchen-string", "--state", SECOND, "--to", "again"]],
            FEWER, fewer),
    Rewrite("int to long", "1.20/edges-hashmap-canonical",
            [lambda w: w.transform_state("edges", "int", longer)], WIDER, doubled, needs_spark=True),
    Rewrite("incremental to canonical", "1.20/kitchen-rocksdb-incremental",
            [["convert", "--to", "canonical"]]),
    Rewrite("changelog to canonical", "1.20/tiny-rocksdb-changelog", [["convert", "--to", "canonical"]]),
    Rewrite("copy of a checkpoint", "1.20/windows-hashmap-checkpoint", [["copy"]], backends=("hashmap",)),
    Rewrite("heap changelog to canonical", "1.20/windows-hashmap-changelog", [lambda w: w.with_format("canonical")]),
    Rewrite("heap to canonical", "1.20/kitchen-hashmap-native", [lambda w: w.with_format("canonical")]),
    Rewrite("heap to rocksdb", "1.20/kitchen-hashmap-native", [["convert", "--to", "native-rocksdb"]],
            backends=("rocksdb",)),
    Rewrite("rocksdb to heap", "1.20/kitchen-rocksdb-incremental", [["convert", "--to", "native-hashmap"]],
            backends=("hashmap",)),
    Rewrite("nothing in flight", "1.20/inflight-hashmap-checkpoint",
            [["convert", "--drop-in-flight-data", "--to", "canonical"]], IN_FLIGHT, kept),
    Rewrite("operator state of fewer subtasks", "1.20/operators-hashmap-canonical",
            [lambda w: w.with_parallelism("buffers", 1).with_parallelism("broadcast-rules", 1)]),
    Rewrite("operator state of more subtasks", "1.20/operators-hashmap-canonical-snappy",
            [["rescale", "--parallelism", "buffers=5", "--parallelism", "broadcast-rules=3"]]),
    Rewrite("of 1.13", "1.13/kitchen-hashmap-canonical",
            [["upgrade", "--flink-version", "2.3"], ["rescale", "--max-parallelism", "256"]], by="2.3",
            max_parallelism=256),
    Rewrite("of 1.13's windows", "1.13/windows-rocksdb-canonical",
            [{"changes": [{"upgrade": {"flink_version": "2.3"}}], "target": {"compressed": True}}], by="2.3"),
    Rewrite("Kryo of 1.20", "1.20/edges-hashmap-canonical", [out_of_kryo], expected=without_generic, by="2.3",
            reading={"classes": CLASSES}, needs_spark=True),
    Rewrite("upgrade of Kryo", "1.20/edges-hashmap-canonical", [["upgrade", "--flink-version", "2.3", *DESCRIBED]],
            by="2.3"),
    Rewrite("upgrade of Kryo in heap", "1.20/edges-hashmap-checkpoint",
            [["upgrade", "--flink-version", "2.3", *DESCRIBED]], backends=("hashmap",), by="2.3"),
    Rewrite("states of 2.3", "2.3/kitchen-rocksdb-incremental",
            [lambda w: renamed_states(w).with_format("canonical").with_max_parallelism(1024)],
            OTHER_STATES, other_states, by="2.3", max_parallelism=1024),
    Rewrite("incremental to heap of 2.3", "2.3/kitchen-rocksdb-incremental",
            [lambda w: w.with_format("native-hashmap")], backends=("hashmap",), by="2.3"),
    Rewrite("heap to rocksdb of 2.3", "2.3/kitchen-hashmap-checkpoint",
            [lambda w: w.with_format("native-rocksdb").with_parallelism("kitchen-string", 5)], backends=("rocksdb",),
            by="2.3"),
    Rewrite("tables of 2.3 for 1.20", "2.3/tiny-rocksdb-native", [["upgrade", "--flink-version", "1.20"]]),
    Rewrite("copy of 2.3", "2.3/windows-hashmap-canonical", [lambda w: w], by="2.3"),
    Rewrite("hooks to rocksdb", "1.20/hooks-hashmap-canonical", [lambda w: hooked(w).with_format("native-rocksdb")],
            HOOKED, uids_and_hooks, backends=("rocksdb",), hooks=HOOKS),
    Rewrite("hooks of 1.20", "1.20/hooks-hashmap-canonical",
            [lambda w: hooked(w).with_flink_version("2.3").with_max_parallelism(256)],
            HOOKED, uids_and_hooks, by="2.3", max_parallelism=256, hooks=HOOKS),
)  # fmt: skip
