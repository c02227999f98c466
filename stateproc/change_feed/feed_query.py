"""What the options of a change feed ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stateproc.diff.common_schema import RowForm


@dataclass(frozen=True)
class FeedQuery:
    """The options of a feed, parsed; see `changes`."""

    starting_checkpoint: int | None = None
    ending_checkpoint: int | None = None
    mode: str = "steps"
    list_changes: str = "whole"
    times: bool = False
    raw: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> FeedQuery:
        """Return the query of option values by their Python names."""
        names = ("starting_checkpoint", "ending_checkpoint", "change_feed_mode", "list_changes", "times", "raw")
        return cls(*(values[name] for name in names))

    @property
    def form(self) -> RowForm:
        """What the rows are."""
        return RowForm(times=self.times, list_elements=self.list_changes == "appended", raw=self.raw)
