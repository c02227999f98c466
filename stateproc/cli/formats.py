"""The formats rows can be written in, and how one is chosen."""

from __future__ import annotations

from pathlib import Path

from stateproc.errors import InvalidOption

FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")
_BY_SUFFIX = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}


def chosen_format(name: str | None, output: str | None, *, terminal: bool) -> str:
    """The format asked for, else that of the file's name; on a terminal a table, in a pipe JSON lines."""
    if name is not None:
        return name
    if output is not None:
        found = _BY_SUFFIX.get(Path(output).suffix)
        if found is None:
            raise InvalidOption(
                f"what format is {output!r} to have?",
                advice=f"--format {', '.join(FORMATS)}, or a name that ends in {', '.join(_BY_SUFFIX)}",
            )
        return found
    return "table" if terminal else "jsonl"
