"""Compare what stateproc decodes with what Flink's own jobs wrote down, see tests/vectors/README.md.

The comparison is exact in every value; it only knows that the two sides name some things differently (an absent
alternative is null here and left out there, a map is a list of pairs here and of objects there).
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import re
from typing import Any


def plain(value: Any) -> Any:
    """Python values in JSON's types: bytes as base64, special floats as strings, dates and times as ISO text."""
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return [{"key": plain(key), "value": plain(item)} for key, item in value]
        return [plain(item) for item in value]
    raise TypeError(f"no plain form of {type(value)}")


def _float(value: float) -> Any:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else value


_NAMES = {"row_kind": "kind", "has_been_joined": "hasBeenJoined"}
_INSTANT = re.compile(r"([+-]?\d{4,})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(Z|\+00:00)?")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?")


def same(ours: Any, theirs: Any) -> bool:
    """Whether two plain values are the same."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        ours = {_NAMES.get(key, key): item for key, item in ours.items()}
        told = {"class", "element"}  # the subclass of a POJO, the kind of a stream element: told here only
        given = {key: item for key, item in ours.items() if key in theirs or (item is not None and key not in told)}
        return given.keys() <= theirs.keys() and all(same(ours.get(key), theirs[key]) for key in theirs)
    if isinstance(theirs, list) and isinstance(ours, list):
        if _is_map(theirs) and len(ours) == len(theirs):
            return all(any(same(mine, item) for mine in ours) for item in theirs)
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, dict) and set(theirs) == {"millis"} and isinstance(ours, str):
        return _parts(ours) == _parts(instant_text(theirs["millis"]))
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        # A lone surrogate has no UTF-8: it is U+FFFD here. A time of whole minutes is printed without seconds there.
        return re.sub("[\ud800-\udfff]", "�", theirs) == ours or (_parts(ours) is not None and _parts(ours) == _parts(theirs))
    if isinstance(ours, bool) != isinstance(theirs, bool):
        return False
    return bool(ours == theirs)


def _is_map(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and set(item) == {"key", "value"} for item in items)


def instant_text(millis: int) -> str:
    """Milliseconds since the epoch as an ISO instant, any year."""
    from stateproc.codec.temporal import iso_instant

    return iso_instant(millis // 1000, millis % 1000 * 10**6) + "Z"


def _parts(text: str) -> tuple[Any, ...] | None:
    """A date, time or instant as comparable parts; None for other texts."""
    match = _INSTANT.fullmatch(text)
    if match:
        year, month, day, hour, minute, second, fraction, zone = match.groups()
        clock = (int(hour or 0), int(minute or 0), int(second or 0), (fraction or "").ljust(9, "0"))
        return (int(year), int(month), int(day), *clock, zone is not None)
    match = _TIME.fullmatch(text)
    if match:
        hour, minute, second, fraction = match.groups()
        return (int(hour), int(minute), int(second or 0), (fraction or "").ljust(9, "0"))
    return None
