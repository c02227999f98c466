"""The rules of compatibility agree with what releases of Flink said of each other's serializers."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from stateproc.errors import SnapshotError
from stateproc.flink_versions import Release
from stateproc.serializers.compatibility import (
    Answer,
    Comparison,
    Compatibility,
    Effect,
    can_restore,
    resolve,
    resolve_stored,
    same_job,
)
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.types import LONG, List, Map
from tests.helpers.recorded_compatibility import MIGRATED, MISREAD, REFUSED, RIGHT, Pair, recorded_pairs

ANSWERS = {
    "as is": Answer.AS_IS,
    "reconfigured": Answer.RECONFIGURED,
    "after migration": Answer.AFTER_MIGRATION,
    "incompatible": Answer.INCOMPATIBLE,
    "unreadable": Answer.UNREADABLE,
}
"""What Flink says → ours."""
PAIRS = tuple(recorded_pairs())

# What a snapshot does not contain. Each: a pattern of cases, what Flink made of the value, what we say, and why.
EXCEPTIONS = [
    (
        r"GenAdded|GenRemoved|GenRenamed|EListNest",
        MISREAD,
        RIGHT,
        "a snapshot has a class that Kryo writes by name only",
    ),
    (
        r"generic (ZonedDateTime|OffsetDateTime|ZoneOffset|URL|EnumMap)|PZoned",
        MISREAD,
        RIGHT,
        "Flink cannot read it back",
    ),
    (r"generic (Row|Tuple2)|PRow", RIGHT, MISREAD, "the fields of these classes are not described, so nobody can say"),
    (r"Base with value of subclass SubGrown", MISREAD, RIGHT, "the value is right and has the new field, too"),
    (r"Base with value of subclass SubGone", REFUSED, RIGHT, "no snapshot says which classes a job does not have"),
    (r"generic Collections\..*", RIGHT, MISREAD, "values of this class only; others of the interface are misread"),
    (r"generic LocalTime", RIGHT, MISREAD, "equal at full minutes only"),
]


GONE = "Gone (class removed)"
"""A case of which Flink says that it does not find the class: to us it is another class than the job's."""


def ours(pair: Pair) -> Compatibility:
    return (resolve_stored if pair.name.startswith("backend") else resolve)(pair.old, pair.new, pair.comparison)


def outcome(pair: Pair, found: Compatibility) -> str:
    """What the answer says about the value."""
    if found.answer >= Answer.INCOMPATIBLE or found.of(Effect.THROWS):
        return REFUSED
    if found.of(Effect.MISREAD) or (found.of(Effect.UNDECIDED) and is_misread(pair)):
        return MISREAD
    return MIGRATED if found.answer is Answer.AFTER_MIGRATION else RIGHT


def is_misread(pair: Pair) -> bool:
    """Whether the two versions of Kryo read the value otherwise, as `check` finds out from the rows."""
    comparison = pair.comparison
    try:
        old, new = (
            pair.old.decode(pair.bytes, kryo=kryo, classes=comparison.classes, opaque=False)
            for kryo in (comparison.old_kryo, comparison.release.kryo)
        )
        return bool(old != new)
    except SnapshotError:
        return True


def test_there_are_pairs_of_all_releases() -> None:
    runs = Counter((pair.old_release, pair.new_release) for pair in PAIRS)
    assert len(runs) == 16
    assert min(runs.values()) > 600


def test_all_outcomes_are_those_of_flink() -> None:
    problems = []
    for pair in PAIRS:
        found = ours(pair)
        expected, got = pair.outcome, outcome(pair, found)
        if expected == got or (expected == REFUSED and got == MISREAD and pair.row.get("values") == "throws"):
            continue  # a migration throws because Kryo misreads
        if not any(re.fullmatch(name, pair.name) and expected == e and got == g for name, e, g, _ in EXCEPTIONS):
            problems.append(f"{pair}: {expected}, not {got}: {[str(note) for note in found.notes]}")
    assert problems == []


def test_all_answers_are_those_of_flink() -> None:
    """Where Flink can make a serializer of the snapshot, the answers are equal to the kind of compatibility."""
    problems = []
    for pair in PAIRS:
        if pair.row.get("restored") == "not restored" or pair.row["verdict"] == "throws" or GONE in pair.name:
            continue
        found = ours(pair).answer
        if found is not ANSWERS[pair.row["verdict"]]:
            problems.append(f"{pair}: {pair.row['verdict']}, not {found.name}")
    assert problems == []


FIELD = re.compile(r"(\w+): ([^,{}]*)[,}]")


def test_losses_are_what_a_migration_loses() -> None:
    checked = set()
    for pair in PAIRS:
        if (
            pair.outcome != MIGRATED
            or pair.group != "evolution"
            or "read" not in pair.row
            or pair.name == "EKryoRemoved"
        ):
            continue
        before, after = (dict(FIELD.findall(pair.row[name])) for name in ("value", "read"))
        lost = {name for name, value in before.items() if after.get(name) != value}
        said = {note.path for note in ours(pair).of(Effect.LOSS)}
        assert said == lost, str(pair)
        checked.add(pair.name)
    assert {"EAdded", "ERemoved", "ERenamed", "ESuper", "ENestAdded", "RRemoved"} <= checked


@pytest.mark.parametrize("avro", [False, True])
def test_a_registration_of_avro_keeps_the_operator_from_being_restored(avro: bool) -> None:
    pair = next(p for p in PAIRS if str(p) == f"1.20 → 2.3{' with Avro' if avro else ''}: Gen")
    found = can_restore(pair.old, pair.comparison)
    assert (found is not None) is avro
    if found is not None:
        assert pair.row["restored_exception"].split(" <- ")[0] == found.notes[0].exception
        assert found.answer is Answer.UNRESTORABLE


def test_exceptions_begin_as_those_of_flink() -> None:
    """Of what keeps Flink from reading a snapshot, the first line of the exception."""
    checked = 0
    for pair in PAIRS:
        found = ours(pair)
        said = next((note.exception for note in found.notes if note.exception), None)
        if found.answer < Answer.UNRESTORABLE or said is None or GONE in pair.name:
            continue
        thrown = pair.row.get("restored_exception") or pair.row["exception"]
        assert thrown.split(" <- ")[0] == said, str(pair)
        checked += 1
    assert checked > 100


def test_the_same_job_has_the_serializers_that_flink_2_gives_it() -> None:
    """Fields of List, Map, Set … with their descriptions are as type extraction of the new release has them."""
    fields = {"PList": {"name": "String", "tags": "List<String>"}, "PNestedList": {"l": "List<List<String>>"}}
    for name, described in fields.items():
        pair = next(p for p in PAIRS if str(p) == f"1.20 → 2.3: {name}")
        classes = {f"compatibility.Types${name}": described}
        comparison = type(pair.comparison)(2, pair.comparison.release, classes)
        found = resolve(pair.old, same_job(pair.old, comparison), comparison)
        assert found.answer is ANSWERS[pair.row["verdict"]], name
        assert resolve(pair.new, same_job(pair.old, comparison), comparison).answer in (
            Answer.AS_IS,
            Answer.RECONFIGURED,
        )
        undescribed = type(comparison)(2, comparison.release)
        assert resolve(pair.old, same_job(pair.old, undescribed), undescribed).answer is Answer.INCOMPATIBLE


LIST, MAP = List(LONG), Map(LONG, LONG)
TTL_CASES = {
    "a value": (LONG, TtlSerializer(LONG), Answer.AFTER_MIGRATION),
    "elements": (LIST, List(TtlSerializer(LONG)), Answer.AFTER_MIGRATION),
    "map values": (MAP, Map(LONG, TtlSerializer(LONG)), Answer.AFTER_MIGRATION),
    # Flink looks at the elements of what is a list, be it a state of values: a sink's rows of one key, in SQL.
    "a value that is a list": (LIST, TtlSerializer(LIST), Answer.INCOMPATIBLE),
    "a value that is a map": (MAP, TtlSerializer(MAP), Answer.INCOMPATIBLE),
}


@pytest.mark.parametrize("case", TTL_CASES)
def test_a_time_to_live_comes_and_goes(case: str) -> None:
    without, lives, answer = TTL_CASES[case]
    comparison = Comparison(2, Release(2, 3))
    assert resolve_stored(without, lives, comparison).answer is answer
    assert resolve_stored(lives, without, comparison).answer is answer
    assert resolve_stored(lives, lives, comparison).answer < Answer.AFTER_MIGRATION
    notes = " ".join(map(str, resolve_stored(without, lives, comparison).notes))
    assert ("RocksDB fails where one is null" in notes) is (case == "map values")
    assert resolve_stored(without, lives, Comparison(2, Release(1, 20))).answer is Answer.INCOMPATIBLE
