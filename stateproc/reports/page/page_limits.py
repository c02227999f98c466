"""How much of a large job a page shows, so that it stays below 2 MB."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class PageLimits:
    """The most that a page shows, the largest first.

    Attributes:
        operators: Rows of the table of operators.
        states: Rows of the table of states.
        fields: Columns and fields in all type trees.
        tree_groups: Operators in the treemap, each with its own area.
        skylines: Operators with bytes by key group.
        histograms: Histograms per section.
        detailed: Those of them that show numbers at the pointer.
        tables: Rows of statistics of RocksDB.
        offsets: Kafka partitions.
        problems: Groups of problems.
        text: Characters of a name or type.
    """

    operators: int = 1_000
    states: int = 2_400
    fields: int = 2_000
    tree_groups: int = 60
    skylines: int = 100
    histograms: int = 48
    detailed: int = 9
    tables: int = 300
    offsets: int = 800
    problems: int = 200
    text: int = 240

    def halved(self) -> PageLimits:
        """Return limits half as large."""
        return PageLimits(**{field.name: max(getattr(self, field.name) // 2, 1) for field in fields(self)})

    def short(self, text: str | None) -> str:
        """Return a text that is cut where it is too long."""
        if not text:
            return ""
        return text if len(text) <= self.text else f"{text[: self.text]}…"
