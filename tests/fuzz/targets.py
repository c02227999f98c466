"""What is fuzzed: one target per reader of bytes, with the inputs that it begins with.

The first two bytes of an input choose one of the target's subjects (a file, a serializer, a connector format); the rest
is what the subject reads. Subjects are files and vectors that real Flink and real connectors wrote.
"""

from __future__ import annotations

import json
import random
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pyarrow as pa

from stateproc.connectors.connector_format import ConnectorFormat, Versioned
from stateproc.connectors.registry import CONNECTOR_FORMATS
from stateproc.errors import SnapshotError
from stateproc.filters.condition import parse
from stateproc.jobs.job_document import parse_document
from stateproc.jobs.job_model import job_of
from stateproc.jobs.job_schema import validate
from stateproc.query_plans import read_plan
from stateproc.query_plans.plan_matching import matched_plans
from stateproc.serializers import LayoutContext, Serializer, read_snapshot
from stateproc.wire import Cursor
from stateproc.wire.java_plain import to_plain
from stateproc.wire.java_stream import read_java_object
from tests.fuzz.checksum_mutations import damaged_contents
from tests.fuzz.text_mutations import damaged_document, damaged_expression
from tests.helpers.connector_vectors import connector_vectors
from tests.helpers.damage import corpus
from tests.helpers.damage.child_processes import outcome
from tests.helpers.paths import ROOT, TESTS, VECTORS
from tests.helpers.vectors import read_vectors

Read = Callable[[bytes], Any]
VALUE_FILES = ("flink-1.20.3.json", "flink-2.3.0.json")


@dataclass(frozen=True)
class Subject:
    """What reads bytes, and undamaged examples of them."""

    read: Read
    examples: tuple[bytes, ...]


@dataclass(frozen=True)
class FuzzTarget:
    """The readers of one kind of bytes.

    Attributes:
        name: The name on the command line.
        subjects: Its readers, made when they are needed.
        places: Whether errors name file and offset, as those of whole files do.
        damaged: What damages an input so that most of its form is kept, given other inputs, too.
    """

    name: str
    subjects: Callable[[], tuple[Subject, ...]]
    places: bool = False
    damaged: Callable[[random.Random, bytes, Sequence[bytes]], bytes] | None = None

    def inputs(self) -> Iterator[bytes]:
        """Yield the inputs that fuzzing begins with."""
        for index, subject in enumerate(self.subjects()):
            for example in subject.examples:
                yield index.to_bytes(2, "big") + example

    def problem(self, data: bytes) -> str | None:
        """Read an input; return what is wrong with what came of it, None if it is a result or a typed error."""
        subjects = self.subjects()
        subject = subjects[int.from_bytes(data[:2], "big") % len(subjects)]
        return outcome(lambda: subject.read(data[2:])) if self.places else outcome(lambda: _typed(subject.read, data))

    def shown(self, data: bytes) -> str:
        """Read an input; return what came of it as text."""
        subjects = self.subjects()
        try:
            found = subjects[int.from_bytes(data[:2], "big") % len(subjects)].read(data[2:])
        except SnapshotError as error:
            return str(error)
        items = found.items() if isinstance(found, dict) else [("", found)]
        return repr({name: str(item) if isinstance(item, SnapshotError) else item for name, item in items})


def _typed(read: Read, data: bytes) -> None:
    try:
        read(data[2:])
    except SnapshotError as error:
        assert str(error).strip(), "an error that says nothing"


def _files(targets: Iterable[corpus.Target], least: int = 0) -> tuple[Subject, ...]:
    return tuple(Subject(target.read, (target.data,)) for target in targets if len(target.data) >= least)


@cache
def _metadata() -> tuple[Subject, ...]:
    return _files(corpus.metadata_targets())


@cache
def _headers() -> tuple[Subject, ...]:
    return _files(corpus.header_targets())


def _state_files(*parts: str, heap: bool | None = None) -> tuple[Subject, ...]:
    targets = [target for target in corpus.file_targets() if target.name.endswith(parts)]
    return _files(target for target in targets if heap is None or ("hashmap-checkpoint" in target.name) == heap)


@cache
def _canonical() -> tuple[Subject, ...]:
    return _state_files("managed_keyed", heap=False)


@cache
def _heap() -> tuple[Subject, ...]:
    return _state_files("managed_keyed", heap=True)


@cache
def _operator_state() -> tuple[Subject, ...]:
    return _state_files("managed_operator")


@cache
def _timers() -> tuple[Subject, ...]:
    return _state_files("raw_keyed")


@cache
def _rocksdb() -> tuple[Subject, ...]:
    return _files(target for target in corpus.part_targets() if "segments" not in target.name)


@cache
def _changelog() -> tuple[Subject, ...]:
    return _files(target for target in corpus.part_targets() if "changelog" in target.name)


def _read_serializer(data: bytes) -> None:
    _ = read_snapshot(data).layout(LayoutContext()).arrow_type


@cache
def _serializers() -> tuple[Subject, ...]:
    found = {
        bytes.fromhex(entry["snapshot"])
        for path in sorted(VECTORS.glob("flink-[0-9]*.json"))
        for entry in read_vectors(path.name)["serializers"]
    }
    return (Subject(_read_serializer, tuple(sorted(found))),)


def _values(*parts: str) -> tuple[Subject, ...]:
    """Values of serializers whose class contains one of `parts`, or of all others if none is given."""
    seen: dict[bytes, list[bytes]] = {}
    for file in VALUE_FILES:
        for entry in read_vectors(file)["serializers"]:
            text = bytes.fromhex(entry["snapshot"])
            special = next((part for part in _FAMILIES if part.encode() in text), None)
            if special in parts if parts else special is None:
                seen.setdefault(text, []).extend(bytes.fromhex(case["data"]) for case in entry["cases"])
    return tuple(
        Subject(_decoder(read_snapshot(text)), tuple(cases)) for text, cases in seen.items() if _is_decodable(text)
    )


_FAMILIES = ("KryoSerializer", "AvroSerializer", "RowDataSerializer")


def _is_decodable(snapshot: bytes) -> bool:
    try:
        _read_serializer(snapshot)
    except SnapshotError:
        return False
    return True


def _decoder(serializer: Serializer) -> Read:
    return lambda data: serializer.decode(data)


@cache
def _plain_values() -> tuple[Subject, ...]:
    return _values()


@cache
def _kryo() -> tuple[Subject, ...]:
    return _values("KryoSerializer")


@cache
def _avro() -> tuple[Subject, ...]:
    return _values("AvroSerializer")


@cache
def _row_data() -> tuple[Subject, ...]:
    return _values("RowDataSerializer")


def _read_java(data: bytes) -> None:
    to_plain(read_java_object(Cursor(data, file="stream")))


@cache
def _java() -> tuple[Subject, ...]:
    return (Subject(_read_java, tuple(bytes.fromhex(text) for text in read_vectors("java_objects.json").values())),)


def _format_reader(known: ConnectorFormat) -> Read:
    def read(data: bytes) -> None:
        item = Versioned(data[0] if data else 0, data[1:])
        row = known.read(item)
        if row is not None:
            known.shown(row)
            pa.array([row], known.type_of([row]))
            known.write(item.version, row)

    return read


@cache
def _connectors() -> tuple[Subject, ...]:
    vectors = connector_vectors()
    return tuple(
        Subject(
            _format_reader(known),
            tuple(
                bytes((vector.item.version,)) + vector.item.payload
                for vector in vectors
                if vector.role is known.role and 0 <= vector.item.version < 256 and known.read(vector.item) is not None
            )[:12],
        )
        for known in CONNECTOR_FORMATS
    )


def _read_job(data: bytes) -> None:
    document = parse_document(data.decode("utf-8", "replace"), "job.yaml")
    validate(document)
    job_of(document)


@cache
def _jobs() -> tuple[Subject, ...]:
    examples = (ROOT / "examples").glob("*.yaml")
    return (Subject(_read_job, tuple(path.read_bytes() for path in sorted(examples))),)


_SCHEMA = pa.schema(
    [
        ("b", pa.bool_()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us")),
        ("list", pa.list_(pa.int64())),
        ("struct", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)


def _read_condition(data: bytes) -> None:
    parse(data.decode("utf-8", "replace"), _SCHEMA)


@cache
def _conditions() -> tuple[Subject, ...]:
    lines = (TESTS / "unit" / "filters" / "conditions.sql").read_bytes().splitlines()
    return (Subject(_read_condition, tuple(line for line in lines if line and not line.startswith(b"--"))),)


def _read_query_plan(data: bytes) -> None:
    plan = read_plan("{" + data.decode("utf-8", "replace"))
    matched_plans(plan, plan, {})


@cache
def _plans() -> tuple[Subject, ...]:
    """Plans of which archives and folders of the tests have some; the brace before them is added when they are read."""
    texts = [path.read_bytes() for path in sorted(TESTS.rglob("*plan*.json")) if path.stat().st_size < 100_000]
    for archive in sorted(VECTORS.glob("*.tar.xz")):
        with tarfile.open(archive) as files:
            texts += [files.extractfile(item).read() for item in files if item.name.endswith(".json")]  # type: ignore[union-attr]
    texts.append(json.dumps({"flinkVersion": "2.1", "nodes": [], "edges": []}).encode())
    return (Subject(_read_query_plan, tuple(text.lstrip()[1:] for text in texts if text.lstrip().startswith(b"{"))),)


TARGETS = {
    target.name: target
    for target in (
        FuzzTarget("metadata", _metadata, places=True),
        FuzzTarget("headers", _headers, places=True),
        FuzzTarget("canonical", _canonical, places=True, damaged=damaged_contents),
        FuzzTarget("heap", _heap, places=True, damaged=damaged_contents),
        FuzzTarget("operator-state", _operator_state, places=True, damaged=damaged_contents),
        FuzzTarget("timers", _timers, places=True),
        FuzzTarget("rocksdb", _rocksdb, places=True, damaged=damaged_contents),
        FuzzTarget("changelog", _changelog, places=True),
        FuzzTarget("serializers", _serializers),
        FuzzTarget("values", _plain_values),
        FuzzTarget("kryo", _kryo),
        FuzzTarget("avro", _avro),
        FuzzTarget("row-data", _row_data),
        FuzzTarget("java-objects", _java),
        FuzzTarget("connectors", _connectors),
        FuzzTarget("jobs", _jobs, damaged=damaged_document),
        FuzzTarget("conditions", _conditions, damaged=damaged_expression),
        FuzzTarget("plans", _plans, damaged=partial(damaged_document, opening="{")),
    )
}
