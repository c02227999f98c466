"""Wrap serializer snapshots of a state's header in TtlSerializer's, or unwrap them; the snapshots stay bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stateproc.errors import InvalidOption, UnsupportedSnapshot, Where
from stateproc.flink_versions import DEFAULT
from stateproc.metadata.backend import StateMetaInfo
from stateproc.serializers import Serializer
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.scalars import LONG
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.wire import Output
from stateproc.writers.rewrite.merged_header import TTL, with_snapshots
from stateproc.writers.rewrite.raw_snapshots import PROXY, composite_of, raw_composite, versioned_of

_VALUE = "VALUE_SERIALIZER"
_TTL_VERSION = 2


def with_ttl(info: StateMetaInfo) -> StateMetaInfo:
    """The state with a time to live, as a job whose descriptor enables it registers it (KEY_VALUE states only).

    Raises InvalidOption if it has one, or is a state that can have none; UnsupportedSnapshot for serializers of no such
    state.
    """
    return _changed(info, lambda value: value if isinstance(value, TtlSerializer) else TtlSerializer(value), _wrapped)


def without_ttl(info: StateMetaInfo) -> StateMetaInfo:
    """The state without a time to live. Raises as `with_ttl`."""
    return _changed(info, lambda value: value.value if isinstance(value, TtlSerializer) else value, _unwrapped)


def _changed(
    info: StateMetaInfo, change: Callable[[Serializer], Serializer], change_bytes: Callable[[bytes, str], bytes]
) -> StateMetaInfo:
    value, kind = info.value_serializer, info.options.get("KEYED_STATE_TYPE")
    if value is None or kind is None:
        raise InvalidOption(
            "a state that can have no time to live",
            where=Where(state=info.name),
            advice="timers fire, and never expire",
        )
    wanted: Serializer
    raw = versioned_of(info.snapshots[_VALUE])
    if kind == "LIST" and isinstance(value, ListOf):
        wanted = replace(value, element=change(value.element))
    elif kind == "MAP" and isinstance(value, MapOf):
        wanted = replace(value, value=change(value.value))
    else:
        wanted = change(value)
    if wanted == value:
        raise InvalidOption("the state's time to live is as it should be already", where=Where(state=info.name))
    if kind in ("LIST", "MAP"):
        parts = raw_composite(raw, info.name)
        last = len(parts.parts) - 1
        raw = parts.with_part(last, change_bytes(parts.parts[last], info.name)).versioned()
    else:
        raw = change_bytes(raw, info.name)
    made = with_snapshots(info, {**info.snapshots, _VALUE: PROXY + raw})
    if made.value_serializer != wanted:
        raise UnsupportedSnapshot(
            f"the time to live of values of the type {value.type_name} cannot be changed in their snapshot alone",
            where=Where(state=info.name),
            advice="read the state as rows and write it anew",
        )
    return made


def _wrapped(value: bytes, state: str) -> bytes:
    long = Output()
    LONG.write_snapshot(long, DEFAULT)
    return composite_of(TTL, _TTL_VERSION, (bytes(long), value)).versioned()


def _unwrapped(value: bytes, state: str) -> bytes:
    return raw_composite(value, state).parts[1]
