"""Read offsets from a CSV file of topic, partition and offset."""

from __future__ import annotations

import csv

from stateproc.errors import InvalidOption, MissingFile, Where

COLUMNS = ("topic", "partition", "offset")


def read_offsets(path: str) -> dict[str, int | str]:
    """Return the offsets of a file by ``topic:partition``.

    Args:
        path: A local CSV file with a line of names, in any order; other columns are ignored.

    Raises:
        MissingFile: The file cannot be read.
        InvalidOption: A column is missing, or a line has no value or names a partition twice.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            return _offsets(csv.DictReader(file), path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MissingFile(f"the offsets cannot be read: {error}", where=Where(file=path)) from error


def _offsets(rows: csv.DictReader[str], path: str) -> dict[str, int | str]:
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        raise InvalidOption(
            f"the file has no column {', '.join(missing)}",
            where=Where(file=path),
            advice="begin it with the line topic,partition,offset",
        )
    found: dict[str, int | str] = {}
    for row in rows:
        values = [(row[name] or "").strip() for name in COLUMNS]
        partition = ":".join(values[:2])
        if not all(values) or partition in found:
            problem = "has no value of one column" if not all(values) else f"names {partition} again"
            raise InvalidOption(f"line {rows.line_num} {problem}", where=Where(file=path))
        found[partition] = values[2]
    return found
