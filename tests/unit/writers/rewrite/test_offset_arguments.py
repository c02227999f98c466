"""Arguments of new Kafka offsets: partitions as text or pairs, offsets as numbers or words."""

from __future__ import annotations

from typing import Any

import pytest

from stateproc.errors import InvalidOption
from stateproc.writers.rewrite.kafka_offsets import OffsetsEdit, offsets_edit


def test_every_spelling_gives_the_same_edit() -> None:
    wanted = OffsetsEdit({("a.b", 0): 5, ("c", 7): -3}, {"t": -2}, -1, frozenset({("x", 1)}))
    assert offsets_edit({"a.b:0": "5", "c:7": "committed"}, {"t": "earliest"}, "latest", "x:1") == wanted
    assert offsets_edit({("a.b", 0): 5, ("c", 7): -3}, {"t": -2}, -1, [("x", 1)]) == wanted


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({"a": 1}, "'a' is no partition"),
        ({"a:-1": 1}, "no partition"),
        ({"a:2147483648": 1}, "no partition"),
        ({"a b:1": 1}, "'a b' is no topic"),
        ({"a:1": -4}, "-4 is no offset of a:1"),
        ({"a:1": 1 << 63}, "no offset"),
        ({"a:1": True}, "no offset"),
        ({"a:1": "newest"}, "'newest' is no offset"),
        ({}, "no new offsets"),
    ],
)
def test_other_arguments_are_refused(offsets: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        offsets_edit(offsets, None, None, ())


def test_a_partition_is_not_removed_and_set() -> None:
    with pytest.raises(InvalidOption, match="partition a:1 is removed and has a new offset"):
        offsets_edit({"a:1": 3}, None, None, ["a:1"])
