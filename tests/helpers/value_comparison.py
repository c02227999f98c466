"""Compare what stateproc decodes with what Flink's own jobs wrote down, see tests/vectors/README.md.

The comparison is exact in every value; it only knows that the two sides name some things differently (an absent
alternative is null here and left out there, a map is a list of pairs here and of objects there).
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
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
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E[+-]?\d+)?")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?")


def same(ours: Any, theirs: Any) -> bool:
    """Whether two plain values are the same."""
    if isinstance(ours, dict) and isinstance(ours.get("element"), str) and isinstance(theirs, dict):
        return _same_element(ours, theirs)
    if isinstance(ours, dict) and theirs is not None and not isinstance(theirs, (dict, list)):
        # A union of several types: a field for each of them, one of them set.
        chosen = [item for item in ours.values() if item is not None]
        return len(chosen) == 1 and same(chosen[0], theirs)
    if isinstance(theirs, dict) and set(theirs) == {"raw", "value"}:
        # RAW of a serializer that is known is opened, of another it is bytes.
        return same(ours, theirs["value"]) or ours == theirs["raw"]
    if isinstance(ours, dict) and isinstance(theirs, dict) and "f0" in ours and "f0" not in theirs:
        # Field names that the snapshot does not hold: fields are in the same order.
        ours = dict(zip(theirs, (item for key, item in ours.items() if key != "row_kind"), strict=False))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        ours = {_NAMES.get(key, key): item for key, item in ours.items()}
        extra = {"class", "element"}  # the subclass of a POJO, the kind of a stream element: reported by stateproc only
        given = {key: item for key, item in ours.items() if key in theirs or (item is not None and key not in extra)}
        return given.keys() <= theirs.keys() and all(same(ours.get(key), theirs[key]) for key in theirs)
    if isinstance(theirs, list) and isinstance(ours, list):
        # A long run of a bitmap's bits stands there as its bounds.
        theirs = [bit for item in theirs for bit in (range(item["from"], item["to"]) if _is_run(item) else (item,))]
        if _is_map(theirs) and len(ours) == len(theirs):
            return all(any(same(mine, item) for mine in ours) for item in theirs)
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if _is_run(theirs) and isinstance(ours, list):
        return same(ours, [theirs])
    if isinstance(ours, int) and isinstance(theirs, list):
        return theirs == [None] * ours  # Gelly's NullValueArray is a count
    if isinstance(theirs, (list, dict)) and isinstance(ours, str) and ours[:1] in "[{":
        # What no snapshot gives a type (a Kryo collection) comes as JSON text.
        return same(json.loads(ours), theirs)
    if isinstance(ours, dict) and isinstance(theirs, list) and _is_map(theirs):
        return same([{"key": key, "value": item} for key, item in ours.items()], theirs)
    if isinstance(ours, dict) and theirs == []:
        return ours == {}
    if isinstance(theirs, dict) and set(theirs) == {"millis"} and isinstance(ours, str):
        return time_parts(ours) == time_parts(instant_text(theirs["millis"]))
    if isinstance(ours, int) and isinstance(theirs, str):
        return str(ours) == theirs
    if isinstance(ours, float) and isinstance(theirs, str) and _NUMBER.fullmatch(theirs):
        return repr(ours) == theirs  # a decimal of a variant
    if ours is None and theirs == {}:
        return True
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        if _NUMBER.fullmatch(ours) and _NUMBER.fullmatch(theirs):
            return decimal.Decimal(ours) == decimal.Decimal(theirs)
        # A lone surrogate has no UTF-8: it is U+FFFD here. A time of whole minutes is printed without seconds there.
        return re.sub("[\ud800-\udfff]", "�", theirs) == ours or (
            time_parts(ours) is not None and time_parts(ours) == time_parts(theirs)
        )
    if isinstance(ours, bool) != isinstance(theirs, bool):
        return False
    return bool(ours == theirs)


def _is_run(item: Any) -> bool:
    return isinstance(item, dict) and item.keys() == {"from", "to"}


_MARKERS = {"watermark": "watermark", "latency marker": "marked_time", "internal watermark": "watermark"}


def _same_element(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """A stream element: records in full; of markers, which state never holds, kind and time."""
    if ours["element"] == "record":
        return same({"timestamp": ours["timestamp"], "value": ours["value"]}, {"timestamp": None, **theirs})
    name = _MARKERS.get(ours["element"])
    return bool(theirs[name] == ours["timestamp"]) if name else not {"value", "watermark"} & theirs.keys()


def _is_map(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and set(item) == {"key", "value"} for item in items)


def instant_text(millis: int) -> str:
    """Milliseconds since the epoch as an ISO instant, any year."""
    from stateproc.codec.temporal import iso_instant

    return iso_instant(millis // 1000, millis % 1000 * 10**6) + "Z"


def time_parts(text: str) -> tuple[Any, ...] | None:
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
