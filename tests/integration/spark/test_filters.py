"""Key groups that remain after pruning by the filters that Spark pushes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from stateproc.spark.filters import key_groups_of_filters

GROUP, KEY = ("key_group",), ("key",)


def own_number(keys: Sequence[Any]) -> set[int]:
    return {key % 8 for key in keys}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], None),
        ([EqualTo(GROUP, 3)], {3}),
        ([EqualTo(GROUP, 8)], set()),
        ([EqualNullSafe(GROUP, 3)], {3}),
        ([In(GROUP, (1, 2, None, 99))], {1, 2}),
        ([GreaterThan(GROUP, 5)], {6, 7}),
        ([GreaterThanOrEqual(GROUP, 5), LessThan(GROUP, 7)], {5, 6}),
        ([LessThanOrEqual(GROUP, 0)], {0}),
        ([IsNotNull(GROUP)], None),
        ([Not(EqualTo(GROUP, 3))], None),
        ([EqualTo(KEY, 10)], {2}),
        ([In(KEY, (10, 11, None))], {2, 3}),
        ([In(KEY, (None,))], set()),
        ([GreaterThan(KEY, 10)], None),
        ([EqualNullSafe(KEY, None)], None),
        ([Not(EqualTo(KEY, 10))], None),
        ([StringStartsWith(KEY, "a")], None),
        ([EqualTo(("key", "f0"), 10)], None),
        ([EqualTo(("value",), 10)], None),
        ([EqualTo(KEY, 10), LessThan(GROUP, 2)], set()),
        ([EqualTo(KEY, 10), LessThan(GROUP, 3), EqualTo(("value",), 1)], {2}),
    ],
)
def test_key_groups_that_remain_after_filters(filters: list[Filter], expected: set[int] | None) -> None:
    assert key_groups_of_filters(filters, 8, own_number) == expected


def test_keys_of_unknown_hash_are_not_pruned() -> None:
    assert key_groups_of_filters([EqualTo(KEY, 10)], 8, lambda keys: None) is None


def test_a_struct_key_is_pruned_if_every_field_is_filtered() -> None:
    kind = pa.struct([("f0", pa.int64()), ("f1", pa.struct([("x", pa.string())])), ("row_kind", pa.string())])
    asked: list[Any] = []

    def note(keys: Sequence[Any]) -> set[int]:
        asked.append(list(keys))
        return {5}

    one, text = In(("key", "f0"), (1, 2, None)), EqualTo(("key", "f1", "x"), "a")
    assert key_groups_of_filters([one, text], 8, note, kind) == {5}
    assert asked == [[{"f0": 1, "f1": {"x": "a"}}, {"f0": 2, "f1": {"x": "a"}}]]
    assert key_groups_of_filters([one], 8, note, kind) is None
    assert key_groups_of_filters([one, IsNull(("key", "f1", "x"))], 8, note, kind) == {5}
    assert asked[1:] == [[{"f0": 1, "f1": {"x": None}}, {"f0": 2, "f1": {"x": None}}]]
    assert key_groups_of_filters([one, text, LessThan(GROUP, 5)], 8, note, kind) == set()
    assert key_groups_of_filters([EqualTo(("value", "f0"), 1)], 8, note, pa.struct([])) is None
