"""Verdicts on states agree with restores by real Flink, 1.20 → 2.3, in every place that a type can have."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache

import pytest

from stateproc.compatibility.declared_job import KEY, VALUE, DeclaredState
from stateproc.compatibility.state_rules import check_keys, check_state
from stateproc.compatibility.verdicts import Verdict
from stateproc.flink_versions import Release
from stateproc.serializers import Serializer
from stateproc.serializers.compatibility import Comparison
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import TupleOf
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.types import STRING
from tests.helpers.paths import VECTORS
from tests.helpers.recorded_compatibility import Pair, recorded_pairs

RESTORES = json.loads((VECTORS / "compatibility" / "restores.json").read_text(encoding="utf-8"))["restores"]
KRYO_THROWS = re.compile(
    r"fails: (DateTimeException|EOFException|ClassNotFoundException: ?$|KryoException|IndexOutOf|IllegalArgument)"
)
"""What Kryo throws while it reads other bytes, or what a field throws that gets its value."""
KINDS = {"value": ("value", "keyed"), "list": ("list", "keyed"), "map": ("map", "keyed")}
PLACES = {**KINDS, "split": ("list", "split"), "union": ("list", "union"), "broadcast": ("broadcast", "broadcast")}


@cache
def pairs() -> dict[tuple[str, bool], Pair]:
    found = [pair for pair in recorded_pairs() if (pair.old_release, pair.new_release) == ("1.20", "2.3")]
    return {(pair.name, pair.avro): pair for pair in found}


@dataclass(frozen=True)
class Found:
    verdict: Verdict
    losses: tuple[str, ...]
    exception: str | None


def verdict_of(place: str, pair: Pair) -> Found:
    """The verdict on a state of the pair's type in that place."""
    if place == "key":
        keys = check_keys([pair.old], pair.new, pair.comparison)
        return Found(keys.verdict, keys.losses, keys.exception)
    kind, distribution = PLACES[place]
    old, new = (
        DeclaredState("x", kind, distribution, _serializers(place, serializer)) for serializer in (pair.old, pair.new)
    )
    check, _ = check_state([old], new, pair.comparison, heap=False)
    return Found(check.verdict, check.losses, check.exception)


def _serializers(place: str, serializer: Serializer) -> dict[str, Serializer]:
    if place == "list":
        return {VALUE: ListOf("List", serializer)}
    if place == "map":
        return {VALUE: MapOf(STRING, serializer)}
    return {KEY: STRING, VALUE: serializer} if place == "broadcast" else {VALUE: serializer}


def agrees(result: str, found: Found) -> bool:
    if result == "restored":  # the contents of a window were not compared
        return found.verdict is not Verdict.REFUSED
    if result == "ok, equal":
        return found.verdict in (Verdict.AS_IS, Verdict.AFTER_MIGRATION) and not found.losses
    if result.startswith("restores"):
        return found.verdict in (Verdict.AFTER_MIGRATION, Verdict.MISREAD)
    if KRYO_THROWS.match(result):
        return found.verdict in (Verdict.MISREAD, Verdict.REFUSED)
    return found.verdict is Verdict.REFUSED and says(result, found.exception or "")


def says(result: str, exception: str) -> bool:
    """Whether the exception begins as it was recorded: without packages, and cut off."""
    recorded = result.removeprefix("fails: ").split(" <- ")[0].replace("T$", "").replace("'GenericData$Array'", "")
    shown = re.sub(r"\b[a-z][\w.]*\.(?=[A-Z])", "", exception)
    shown = re.sub(r"(Types|Evolving)\$", "", shown).replace("'GenericData$Array'", "")
    words = re.sub(r"\{.*", "", recorded).split()[:9]
    return shown.startswith(" ".join(words)) or recorded.startswith(("ClassNotFoundException", "IllegalStateException"))


UNDECIDED = re.compile(r"generic (Object|Optional|UUID)|POptional|PObject|PRow|Row\(String,generic Gen\)|GenObject")
"""Types that leave it to the values, which are not there; `test_compatibility` decides these by their values."""
EXCEPTIONS = {"EListRemoved": "right where nothing follows the field, which a verdict on the type does not see"}


@pytest.mark.parametrize("place", [*PLACES, "key"])
def test_verdicts_are_those_of_real_restores(place: str) -> None:
    problems, checked = [], 0
    for row in RESTORES:
        pair = pairs().get((row["case"], row["avro"]))
        if row["place"] != place or pair is None or row["case"] in EXCEPTIONS:
            continue
        if row["result"] == "ok, equal" and UNDECIDED.match(row["case"]):
            continue
        found = verdict_of(place, pair)
        checked += 1
        if not agrees(row["result"], found):
            problems.append(f"{pair} as {place}: {row['result']}, not {found}")
    assert problems == []
    assert checked >= {"value": 200, "key": 10}.get(place, 9)


def test_collections_outside_of_pojos_may_have_another_serializer_in_the_job() -> None:
    """TypeHint<List<E>> and Types.GENERIC(List.class) are one in Flink 1.20, and two in 2.3: refused, or misread."""
    listed = Kryo("java.util.List", ("java.util.List",))
    for value in (listed, TupleOf("org.apache.flink.api.java.tuple.Tuple2", (STRING, listed))):
        state = DeclaredState("x", "value", "keyed", {VALUE: value})
        check, _ = check_state([state], state, Comparison(2, Release(2, 3)), heap=False)
        assert check.verdict is Verdict.MISREAD
        assert check.reasons[-1].startswith("a job that declares the arguments of such a List, Set or Map")
