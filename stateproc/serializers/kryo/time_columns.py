"""The columns of dates and times in Kryo values."""

from __future__ import annotations

import pyarrow as pa

from stateproc.codec.temporal import Fidelity

_UTC = pa.timestamp("us", "UTC")
_TIMES: dict[str, tuple[str, pa.DataType]] = {
    "java.time.LocalDate": ("date", pa.date32()),
    "java.time.LocalTime": ("time", pa.time64("us")),
    "java.time.LocalDateTime": ("stamp", pa.timestamp("us")),
    "java.time.Instant": ("stamp", _UTC),
    "java.util.Date": ("stamp", _UTC),
    "java.sql.Date": ("stamp", _UTC),
    "java.sql.Time": ("stamp", _UTC),
    "java.sql.Timestamp": ("stamp", _UTC),
}
_FINE = frozenset({"java.time.LocalTime", "java.time.LocalDateTime", "java.time.Instant", "java.sql.Timestamp"})


def time_mode(class_name: str, modes: Fidelity) -> str:
    """Return the mode in which values of a class become a column; only some classes have nanoseconds."""
    return modes.fine if class_name in _FINE else modes.coarse


def time_column(class_name: str, modes: Fidelity) -> tuple[str, pa.DataType] | None:
    """Return the kind and type of the column of a class of dates or times; None for other classes."""
    if class_name not in _TIMES:
        return None
    kind, arrow = _TIMES[class_name]
    mode = time_mode(class_name, modes)
    if mode == "micros":
        return kind, arrow
    return f"{mode} {kind}", pa.string() if mode == "exact" else arrow
