"""Real Flink 1.20 and 2.3 restore what every verb wrote, without Spark, of snapshots of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.flink.fixture_operators import OPERATORS
from tests.helpers.flink.restoration import BACKENDS, HUNDRED_YEARS, Operator, Restored, Spec, State, restore
from tests.helpers.flink.rewrites import (
    DELETE,
    LATER,
    OTHER_STATES,
    RENAMED,
    UPDATE,
    Bootstrap,
    Edit,
    Lines,
    Rewrite,
    deleted,
    other_states,
    purged,
    renamed,
    same,
    ttl,
    ttl_of,
    updated,
    without_times,
)
from tests.helpers.flink.rewritten_savepoints import restored_differences

# Every verb on a snapshot of every kind, by Flink 1.20 and 2.3: what is written, and what a job has to find.


RELEASES = ("1.20", "2.3")
OTHER_RELEASE = dict(zip(RELEASES, reversed(RELEASES), strict=True))
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "canonical savepoint": ("rocksdb-canonical", BACKENDS),
    "native heap": ("hashmap-checkpoint", ("hashmap",)),
    "incremental checkpoint": ("rocksdb-incremental", ("rocksdb",)),
    "changelog": ("rocksdb-changelog", ("rocksdb",)),
}
"""Kind of snapshot → mode of its fixture, and the backends that load it. All load a canonical savepoint."""
KITCHEN = OPERATORS["kitchen"]
SOURCE = "orders-from-kafka"
ENABLED = tuple(
    replace(op, states=[replace(state, ttl=HUNDRED_YEARS) if state.name in ("profile", "products") else state
                        for state in op.states]) if op.uid == "kitchen-string" else op
    for op in KITCHEN
)  # fmt: skip
FRESH = Operator("fresh", "LONG", (State("name", "value", "STRING"),))


@dataclass(frozen=True)
class VerbCase:
    """A verb with its arguments, on each snapshot of a job.

    Attributes:
        verb: The verb with its action or format, as the matrix shows it.
        edits: What is written, one savepoint after another.
        operators: How a job registers the result.
        expected: The lines that a job has to find, of those of the source.
        backends: The backends that load the result; those of the kind where other operators keep their files.
        changes_release: Whether the other release restores the result.
    """

    verb: str
    edits: Sequence[Edit]
    operators: Sequence[Operator] | None = None
    expected: Callable[[Lines], Lines] = same
    backends: tuple[str, ...] | None = None
    max_parallelism: int = 128
    job: str = "kitchen"
    changes_release: bool = False


def without(uid: str) -> Callable[[Lines], Lines]:
    return lambda lines: (line for line in lines if line["uid"] != uid)


def with_times(lines: Lines) -> Lines:
    """Two states of an operator were used in 2100."""
    for line in lines:
        ours = line["uid"] == "kitchen-string" and line["state"] in ("profile", "products")
        yield {**line, "last_access": [LATER, LATER]} if ours else line


def with_rows(lines: Lines) -> Lines:
    """The lines, and those of the rows that are bootstrapped."""
    yield from lines
    for key, name in ((1, "Ada"), (-2, "Grace"), (2**62, "Žofie")):
        yield {"uid": "fresh", "state": "name", "kind": "value", "key": key, "namespace": None, "value": name}


def with_offsets(lines: Lines) -> Lines:
    """One partition has another offset, one is new, one is gone."""
    for line in lines:
        value, kind = line["value"], line["kind"]
        if kind not in ("splits", "enumerator"):
            yield line
        elif value["partition"] != 1:
            moved = kind == "splits" and value["partition"] == 0
            yield {**line, "value": {**value, "starting_offset": 17}} if moved else line
    split = {"topic": "returns", "partition": 0, "starting_offset": -2, "stopping_offset": None}
    yield _of_source("SourceReaderState", "splits", split)
    yield _of_source("coordinator", "enumerator", {"topic": "returns", "partition": 0, "status": "ASSIGNED"})


def _of_source(state: str, kind: str, value: dict[str, Any]) -> dict[str, Any]:
    return {"uid": SOURCE, "state": state, "kind": kind, "subtask": -1, "key": None, "value": value}


ROWS = "key,value\n1,Ada\n-2,Grace\n4611686018427387904,Žofie\n"
OFFSETS = ("--offsets", "shop.orders:0=17", "--offsets", "returns:0=earliest", "--remove", "shop.orders:1")
BOOTSTRAP = Bootstrap(ROWS, ("--uid", "fresh", "--kind", "value", "--state", "name", "--value", "value"))
STRING = ("--uid", "kitchen-string")

VERBS: tuple[VerbCase, ...] = (
    VerbCase("copy", [["copy"]]),
    VerbCase("convert to canonical", [["convert", "--to", "canonical"]], backends=BACKENDS),
    VerbCase("convert to native-hashmap", [["convert", "--to", "native-hashmap"]], backends=("hashmap",)),
    VerbCase("convert to native-rocksdb", [["convert", "--to", "native-rocksdb"]], backends=("rocksdb",)),
    VerbCase(
        "rescale",
        [["rescale", "--max-parallelism", "96", "--parallelism", "kitchen-string=3"]],
        backends=BACKENDS,
        max_parallelism=96,
    ),
    VerbCase("rename-operator", [["rename-operator", *STRING, "--to", "renamed"]], RENAMED, renamed),
    VerbCase("drop-operator", [["drop-operator", *STRING]], KITCHEN[:2] + KITCHEN[3:], without("kitchen-string")),
    VerbCase(
        "drop-state, rename-state",
        [["drop-state", *STRING, "--state", "counter"], ["rename-state", *STRING, "--state", "spent", "--to", "paid"]],
        OTHER_STATES,
        other_states,
    ),
    VerbCase(
        "delete",
        DELETE,
        expected=deleted,
    ),
    VerbCase("update", UPDATE, expected=updated),
    VerbCase(
        "ttl enable",
        [["ttl enable", *STRING, "--state", "profile", "--state", "products", "--last-access", "2100-01-01T00:00:00Z"]],
        ENABLED,
        with_times,
    ),
    VerbCase("ttl disable", [ttl("disable", "kitchen-ttl")], ttl_of("kitchen-ttl", None), without_times),
    VerbCase(
        "ttl purge", [ttl("purge", "kitchen-ttl", "--ttl", "1 d", "--now", "2100-01-01T00:00:00Z")], expected=purged
    ),
    VerbCase("set-offsets", [["set-offsets", "--uid", SOURCE, *OFFSETS]], expected=with_offsets, job="kafka"),
    VerbCase("upgrade", [], changes_release=True),
    VerbCase("bootstrap", [BOOTSTRAP], (*KITCHEN, FRESH), with_rows),
)


def verb_rewrites() -> Iterator[Rewrite]:
    """Return each verb on each kind of snapshot of each release; the name is verb, kind and release."""
    for release in RELEASES:
        for kind, (mode, backends) in KINDS.items():
            for case in VERBS:
                by = OTHER_RELEASE[release] if case.changes_release else release
                yield Rewrite(
                    f"{case.verb}; {kind}; {release}",
                    f"{release}/{case.job}-{mode}",
                    [["upgrade", "--flink-version", by]] if case.changes_release else case.edits,
                    case.operators,
                    case.expected,
                    case.backends or backends,
                    by,
                    case.max_parallelism,
                )


pytestmark = pytest.mark.flink

REWRITES = tuple(verb_rewrites())
Results = tuple[dict[str, Path], dict[str, Restored]]


def write(rewrite: Rewrite, folder: Path) -> Path:
    """Write it; a write that is refused fails its own test, because Flink finds no savepoint."""
    try:
        return rewrite.write(None, folder)
    except AssertionError:
        return folder / "refused"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Each savepoint, and what Flink restored of it: one JVM for each release."""
    folder = tmp_path_factory.mktemp("verbs")
    written = {item.name: write(item, folder) for item in REWRITES}
    restored: dict[str, Restored] = {}
    for release in RELEASES:
        specs = [
            Spec(item.name, str(written[item.name]), item.registered, item.backends, (2,))
            for item in REWRITES
            if item.by == release
        ]
        restored |= restore(release, specs, tmp_path_factory.mktemp(f"restored-{release}") / "all")
    return written, restored


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda item: item.name)
def test_flink_restores_what_a_verb_writes(results: Results, rewrite: Rewrite) -> None:
    written, restored = results
    assert restored_differences(rewrite, written[rewrite.name], restored[rewrite.name]) == []


def test_the_matrix_is_complete() -> None:
    assert len({item.name for item in REWRITES}) == len(VERBS) * len(KINDS) * len(RELEASES) == 128
