"""The windowing of a job's window operator, and the names of its states (WindowOperator, MergingWindowSet)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from stateproc.errors import InvalidOption
from stateproc.serializers import Serializer
from stateproc.types import GLOBAL_WINDOW, TIME_WINDOW, Tuple

CONTENTS, MERGING, COUNT, WINDOW_TIMERS = "window-contents", "merging-window-set", "count", "window-timers"
"""State names of WindowOperator and CountTrigger, and the window operator's timer service."""
Assigner: TypeAlias = Literal["tumbling", "sliding", "session", "global"]
Contents: TypeAlias = Literal["list", "evict", "reduce", "aggregate"]
Time: TypeAlias = Literal["event", "processing"]
WindowColumns: TypeAlias = "str | tuple[str, str] | None"
"""The column of a struct of start and end, or the columns of both; None: ``window``, or window_start, window_end."""
WINDOW_PAIR = Tuple(TIME_WINDOW, TIME_WINDOW)
"""An element of the merging window set: the window, and the one under which its contents are stored."""

# Names that no column of a user has.
WINDOW, STORED, HELD = "$window", "$state_window", "$value"
COUNTED, TIME, PAIRS = "$count", "$timestamp", "$pairs"


@dataclass(frozen=True)
class Windowing:
    """The windowing of the job, as given to `OperatorBootstrap.window_state`. Raises InvalidOption."""

    assigner: Assigner
    contents: Contents
    time: Time
    allowed_lateness: timedelta | int

    def __post_init__(self) -> None:
        for what, given, known in (
            ("assigner", self.assigner, ("tumbling", "sliding", "session", "global")),
            ("contents", self.contents, ("list", "evict", "reduce", "aggregate")),
            ("time", self.time, ("event", "processing")),
        ):
            if given not in known:
                raise InvalidOption(f"no window {what} is called {given!r}", advice=f"there are {', '.join(known)}")
        if self.lateness < 0:
            raise InvalidOption(f"an allowed lateness of {self.lateness} ms", advice="give 0 or more")

    @property
    def lateness(self) -> int:
        """In milliseconds."""
        given = self.allowed_lateness
        return given // timedelta(milliseconds=1) if isinstance(given, timedelta) else given

    @property
    def is_global(self) -> bool:
        return self.assigner == "global"

    @property
    def namespace(self) -> Serializer:
        return GLOBAL_WINDOW if self.is_global else TIME_WINDOW
