"""Convert the text of options to values. Each parser raises ValueError with the form that it expects."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from typing import Any

from stateproc.wire.output import MAX_KEY_GROUPS

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def text(given: str) -> str:
    """Return the text as it is."""
    return given


def boolean(text: str) -> bool:
    """Parse ``true`` or ``false`` in any case."""
    values = {"true": True, "false": False}
    if text.lower() not in values:
        raise ValueError("true or false")
    return values[text.lower()]


def one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    """Return a parser that accepts one of ``names`` in any case."""

    def parse(text: str) -> str:
        if text.lower() not in names:
            near = difflib.get_close_matches(text.lower(), names, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError("one of " + ", ".join(names) + hint)
        return text.lower()

    return parse


def uid_hash(text: str) -> str:
    """Parse an operator id or the beginning of one: 4 to 32 hex digits."""
    if not re.fullmatch(r"[0-9a-fA-F]{4,32}", text):
        raise ValueError("4 to 32 hex digits; a uid goes into the option 'uid'")
    return text.lower()


def name_list(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, or a JSON list."""
    if text.lstrip().startswith("["):
        return tuple(str(item) for item in _json(list, "a JSON list", text))
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _json(kind: type, form: str, text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{form} ({error})") from error
    if not isinstance(found, kind):
        raise ValueError(form)
    return found


def key_list(text: str) -> tuple[Any, ...]:
    """Parse a JSON list of keys."""
    return tuple(_json(list, 'a JSON list of keys, such as [42] or ["a", "b"]', text))


def prefix_mapping(text: str) -> dict[str, str]:
    """Parse a JSON object of old and new prefixes, or one ``OLD=NEW``."""
    form = 'a JSON object of prefixes, such as {"hdfs://old/": "s3://new/"}'
    if not text.lstrip().startswith("{"):
        old, new = _moved_prefix(text, form)
        return {old: new}
    found = _json(dict, form, text)
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError(form)
    return dict(found)


def _moved_prefix(text: str, form: str) -> tuple[str, str]:
    """Split ``OLD=NEW``; prefixes may contain ``=`` themselves, so NEW must begin like a path or URI if several fit."""
    splits = [(text[: match.start()], text[match.end() :]) for match in re.finditer("=", text)]
    if len(splits) > 1:
        splits = [(old, new) for old, new in splits if re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*:", new)]
    if len(splits) != 1:
        raise ValueError(f"OLD=NEW, or {form}")
    return splits[0]


def storage_value(text: str) -> Any:
    """Convert a storage option: booleans and JSON objects or lists become values; keys and secrets stay text."""
    if text in ("true", "false") or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def storage_settings(text: str) -> dict[str, Any]:
    """Parse a JSON object of settings, or one ``NAME=VALUE``."""
    form = 'NAME=VALUE, or a JSON object, such as {"anon": true}'
    if text.lstrip().startswith("{"):
        return dict(_json(dict, form, text))
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(form)
    return {name: storage_value(value)}


def key_group_set(text: str) -> frozenset[int]:
    """Parse key groups and ranges of them: ``0-15,42``."""
    groups: set[int] = set()
    for part in name_list(text):
        match = re.fullmatch(r"(\d{1,5})(?:\s*-\s*(\d{1,5}))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last >= MAX_KEY_GROUPS:
            raise ValueError("key groups and ranges of them, such as 0-15,42")
        groups.update(range(first, last + 1))
    return frozenset(groups)


def byte_size(text: str) -> int:
    """Parse a number of bytes with an optional unit: ``64m``."""
    match = re.fullmatch(r"(\d{1,15})\s*([bkmg]?)(?:i?b)?", text.strip().lower())
    if match is None or int(match[1]) == 0:
        raise ValueError("a positive number of bytes, such as 67108864 or 64m")
    return int(match[1]) * _UNITS[match[2]]


def thread_count(text: str) -> int:
    """Parse a number of threads."""
    if not re.fullmatch(r"\d{1,4}", text) or int(text) == 0:
        raise ValueError("a number of threads from 1 to 9999")
    return int(text)


def positive_number(text: str) -> int:
    """Parse a number of things, at least one."""
    if not re.fullmatch(r"\d{1,9}", text) or int(text) == 0:
        raise ValueError("a number from 1 to 999999999")
    return int(text)


def checkpoint_id(text: str) -> int:
    """Parse the id of a checkpoint."""
    found = re.fullmatch(r"(?:chk-)?(\d{1,18})", text.strip())
    if found is None:
        raise ValueError("the id of a checkpoint, such as 42 or chk-42")
    return int(found[1])


def kryo_version(text: str) -> int:
    """Parse the major version of Kryo."""
    if text not in ("2", "5"):
        raise ValueError("2 (Flink 1.x) or 5 (Flink 2.x)")
    return int(text)
