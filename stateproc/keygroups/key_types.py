"""Key types that the user tells: a changelog of which nothing is materialized yet does not hold them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from stateproc.errors import InvalidOption, not_found
from stateproc.keygroups.operator_ids import operator_id
from stateproc.serializers import Serializer

KeyTypes: TypeAlias = Mapping[str, Serializer]
"""Operator id, or EVERY, → the serializer of its keys."""
EVERY = ""
_ADVICE = 'give a type such as "Long", or a JSON object of operators\' uids and their types: {"orders": "Long"}'


def told_key_types(told: Any, operator_ids: Iterable[str]) -> KeyTypes:
    """What ``told`` says: one type for all operators (of `stateproc.types`, or its text), or a mapping (or its JSON
    text) of uids or uid hashes to types. Raises InvalidOption; NotFound for operators that are not there.
    """
    if told is None:
        return {}
    from stateproc import types

    if isinstance(told, str) and told.lstrip().startswith("{"):
        told = _object(told)
    if not isinstance(told, Mapping):
        return {EVERY: types.of(told)}
    known = set(operator_ids)
    found: dict[str, Serializer] = {}
    for name, type_ in told.items():
        ids = {str(name).lower(), operator_id(str(name))} & known
        if not ids:
            raise not_found("operator with uid or uid hash", str(name), sorted(known))
        found.update(dict.fromkeys(ids, types.of(type_)))
    return found


def _object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the key type {text[:60]!r} is no JSON object: {error}", advice=_ADVICE) from error


def key_type_of(operator: str, told: KeyTypes) -> Serializer | None:
    """What the user told of the operator with this id; None if nothing."""
    return told.get(operator, told.get(EVERY))
