"""Changelog segments that claim two billion blocks, changes, elements: refused soon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stateproc.errors import CorruptSnapshot
from tests.helpers.byte_builders.changelog import (
    ADD_ELEMENT,
    LIST,
    LONG,
    SET,
    change,
    declared,
    empty_materialized,
    log_file,
    long,
    opened,
    segment_content,
    state_info,
)
from tests.helpers.byte_builders.metadata import file, file_changelog, i32
from tests.helpers.damage.child_processes import run_cases

HUGE = i32(2**31 - 1)
INFO = state_info("s", "VALUE", LONG)
DECLARED = segment_content([declared(0, INFO)])
CONTENTS = {
    "blocks": HUGE + DECLARED[4:] + b"\0" * 64,
    "a negative number of blocks": i32(-1) + b"\0" * 64,
    "changes": i32(1) + HUGE + i32(-1) + b"\0" * 64,
    "bytes of a change": i32(1, 1, -1) + HUGE + b"\0" * 64,
    "bytes of a change of a key group": i32(2) + DECLARED[4:] + i32(1, 5) + HUGE + bytes(8),
    "elements of a list": segment_content([declared(0, state_info("s", "LIST", LIST)), change(SET, "a", HUGE)]),
    "an element of a value": segment_content([declared(0, INFO), change(ADD_ELEMENT, "a", long(1))]),
}


def _refused(directory: Path, content: bytes) -> Callable[[], Any]:
    def run() -> Any:
        directory.mkdir()
        path = log_file(directory / "log", content)
        operator = opened(directory, [empty_materialized()], [file_changelog(13, [(0, file(path, len(content)))])])
        with pytest.raises(CorruptSnapshot) as caught:
            operator.state("s").to_arrow()
        assert caught.value.advice
        raise caught.value

    return run


def test_counts_without_contents(tmp_path: Path) -> None:
    cases = [(name, _refused(tmp_path / str(n), content)) for n, (name, content) in enumerate(CONTENTS.items())]
    assert run_cases(cases, workers=1).failures == ()
