"""Inputs that coverage-guided fuzzing found to reach more of the readers end in a value or a typed error."""

from __future__ import annotations

import random
import re
from functools import partial

import pytest

from stateproc.errors import CorruptSnapshot, SnapshotError, Where
from tests.fuzz.__main__ import NAMES
from tests.fuzz.checksum_mutations import damaged_contents
from tests.fuzz.corpus import archived
from tests.fuzz.targets import TARGETS, FuzzTarget, Subject
from tests.helpers.damage.child_processes import run_cases

INPUTS = archived()


def test_every_target_has_inputs() -> None:
    assert set(TARGETS) == set(NAMES) == set(INPUTS)
    assert sum(map(len, INPUTS.values())) > 500


@pytest.mark.parametrize("name", NAMES)
def test_archived_inputs_are_read_or_refused(name: str) -> None:
    target = TARGETS[name]
    target.subjects()  # Loaded once, before the children that compare memory.
    cases = [(f"{name} {number}", partial(no_problem, target, data)) for number, data in enumerate(INPUTS[name])]
    assert run_cases(cases).failures == ()


@pytest.mark.parametrize(("name", "least"), [("rocksdb", 8), ("canonical", 3), ("operator-state", 2)])
def test_damage_gets_past_the_checksums(name: str, least: int) -> None:
    """Damage of what they cover is noticed by what reads it, in many ways, or is another value."""
    rng, found = random.Random(1), set[str]()
    for subject in TARGETS[name].subjects():
        for example in subject.examples:
            data = damaged_contents(rng, example, ())
            if data == example:
                continue
            results = subject.read(data)
            found |= {re.sub(r"\d+", "", one.message) for one in results.values() if isinstance(one, SnapshotError)}
    assert sum("checksum" in text for text in found) <= 1 and len(found) >= least, found


def no_problem(target: FuzzTarget, data: bytes) -> None:
    assert target.problem(data) is None, target.problem(data)


def test_a_target_notices_what_no_reader_may_do() -> None:
    def fails(data: bytes) -> None:
        if data == b"typed":
            raise CorruptSnapshot("damaged", where=Where(file="f", offset=1))
        if data == b"nowhere":
            raise CorruptSnapshot("damaged")
        if data == b"untyped":
            raise KeyError(1)

    for places in (False, True):
        target = FuzzTarget("sample", lambda: (Subject(fails, (b"fine",)),), places)
        assert list(target.inputs()) == [b"\0\0fine"]
        assert target.problem(b"\0\0fine") is None
        assert target.problem(b"\0\7typed") is None
        assert "KeyError" in (target.problem(b"\0\0untyped") or "")
        assert (target.problem(b"\0\0nowhere") is None) is not places
