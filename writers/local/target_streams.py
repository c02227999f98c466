"""Find the splits whose entries belong to one state file as a whole, so that they are read when it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stateproc.writers.rewrite.existing_operator import EditedSplit, RawCopies


def splits_by_target(copies: RawCopies) -> dict[int, list[EditedSplit]] | None:
    """Return the splits of an operator by the state file that all their entries belong to.

    Returns:
        Splits by the number of the target; None if the entries of a split belong to several, or to other key groups
        than they have.
    """
    found: dict[int, list[EditedSplit]] = {}
    for split in copies.splits:
        if split.rekey is not None:
            return None
        numbers = copies.targets.numbers(split.split.key_groups)
        if len(numbers) > 1:
            return None
        for number in numbers:
            found.setdefault(number, []).append(split)
    return found


def streams_of(splits: Iterable[EditedSplit]) -> list[list[EditedSplit]]:
    """Combine splits to as few streams as possible in which key groups follow one another."""
    streams: list[list[EditedSplit]] = []
    last: list[int] = []
    for split in sorted(splits, key=lambda item: min(item.split.key_groups, default=0)):
        groups: Sequence[int] = split.split.key_groups
        if not groups:
            continue
        free = next((number for number, end in enumerate(last) if end < min(groups)), None)
        if free is None:
            streams.append([split])
            last.append(max(groups))
        else:
            streams[free].append(split)
            last[free] = max(groups)
    return streams
