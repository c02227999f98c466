"""Fenced blocks of Markdown files, and the commands in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.paths import ROOT

GUIDES = sorted(path for name in ("tutorials", "howto", "recipes") for path in (ROOT / "docs" / name).glob("*.md"))
"""Pages that show what to do with the snapshots of `stateproc notebook`."""
DOCUMENTS = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")} - {*GUIDES})
"""All other pages, whose examples name fixtures."""
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A command of a ``console`` block, and what the block says it prints."""

    line: str
    output: str
    at: int


def blocks(document: Path, language: str) -> list[tuple[int, str]]:
    """(line number, text) of the document's blocks in ``language``."""
    text = document.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start()) + 2, match[2]) for match in _FENCE.finditer(text) if match[1] == language
    ]


def commands(document: Path) -> list[Command]:
    """The commands of all ``console`` blocks: lines with ``$``, and the output that follows."""
    found: list[Command] = []
    for at, text in blocks(document, "console"):
        lines = text.splitlines()
        starts = [index for index, line in enumerate(lines) if line.startswith("$ ")]
        for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
            found.append(Command(lines[start][2:], "\n".join(lines[start + 1 : stop]), at + start))
    return found


def matches(expected: str, printed: str) -> bool:
    """Whether ``printed`` is what the document says; … stands for anything, the amount of blanks is free."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split("…")]
    pattern = ".*".join(parts)
    return re.fullmatch(rf"\s*{pattern}\s*", " ".join(printed.split()), re.DOTALL) is not None
