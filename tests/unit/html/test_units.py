"""Numbers as people read them."""

from __future__ import annotations

import pytest

from stateproc.html.units import counted, duration_text, human_bytes, size_parts, time_text, visible


@pytest.mark.parametrize(
    ("size", "text"),
    [(None, "–"), (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (88_900, "86.8 KiB"), (5 << 50, "5120.0 TiB")],
)
def test_bytes(size: int | None, text: str) -> None:
    assert human_bytes(size) == text
    if size is not None:
        assert " ".join(size_parts(size)) == text


def test_invisible_characters_are_shown() -> None:
    assert visible("a\u202eb\x1b[31m\u200b\tc") == "a\\u202eb\\u001b[31m\\u200b\tc"
    assert visible("Grüße, 紅茶 🍵") == "Grüße, 紅茶 🍵"


def test_nouns_are_counted() -> None:
    assert (counted(1, "state"), counted(0, "state"), counted(1200, "state")) == ("1 state", "0 states", "1,200 states")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (1, "2023-11-15 12:00:00.000"),
        (1_000, "2023-11-15 12:00:00"),
        (60_000, "2023-11-15 12:00"),
        (86_400_000, "2023-11-15"),
    ],
)
def test_times_are_as_precise_as_needed(step: int, text: str) -> None:
    assert time_text(1_700_049_600_000, step) == text


def test_times_of_all_years() -> None:
    assert time_text(-62_135_596_800_000) == "0001-01-01 00:00:00" or time_text(-62_135_596_800_000).startswith("1-")
    assert time_text(253_402_300_799_999, 1) == "9999-12-31 23:59:59.999"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (51, "51 ms"), (1_000, "1 s"), (61_000, "1 min 1 s"), (90_061_000, "1 d 1 h"), (86_400_000, "1 d")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
