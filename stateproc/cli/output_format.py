"""Choose the format in which rows are written."""

from __future__ import annotations

from pathlib import Path

from stateproc.errors import InvalidOption

FORMATS = ("table", "jsonl", "csv", "parquet", "arrow")
_BY_SUFFIX = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".parquet": "parquet", ".arrow": "arrow"}


def choose_format(name: str | None, output: str | None, *, terminal: bool) -> str:
    """Choose the format.

    Args:
        name: The value of ``--format``.
        output: The value of ``--output``, whose suffix names a format.
        terminal: Whether stdout is a terminal.

    Returns:
        One of ``FORMATS``: without name and output ``table`` for a terminal, ``jsonl`` for a pipe.

    Raises:
        InvalidOption: The suffix of ``output`` is unknown.
    """
    if name is not None:
        return name
    if output is not None:
        by_suffix = _BY_SUFFIX.get(Path(output).suffix)
        if by_suffix is None:
            raise InvalidOption(
                f"--output {output}: no format has this suffix",
                advice=f"give --format {', '.join(FORMATS)}, or a name that ends in {', '.join(_BY_SUFFIX)}",
            )
        return by_suffix
    return "table" if terminal else "jsonl"
