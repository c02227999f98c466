"""Test files that wait for JVMs are distributed among those that compute."""

from __future__ import annotations

from tests.helpers.file_order import ordered, spread
from tests.helpers.paths import TESTS


def test_waiting_files_are_spread_among_the_computing_ones() -> None:
    assert list(spread("AB", "abcdefg")) == ["A", *"abc", "B", *"defg"]
    assert list(spread("ABC", "a")) == ["A", "B", "a", "C"]
    assert list(spread("", "ab")) == ["a", "b"]
    assert list(spread("AB", "")) == ["A", "B"]


def test_each_file_is_handed_out_once() -> None:
    unit = [TESTS / f"unit/test_{number}.py" for number in range(20)]
    flink = [TESTS / f"integration/flink/test_{number}.py" for number in range(5)]
    found = ordered([*flink, *flink, *unit])
    assert sorted(found) == sorted([*flink, *unit])
    assert [file for file in found if file in flink] == flink and [file for file in found if file in unit] == unit
    assert set(found[-4:]) <= set(unit), "the last files are short ones"
