"""Parse the key types that a user specifies for changelogs without materialized state, which do not contain them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from stateproc.errors import InvalidOption, not_found
from stateproc.keygroups.operator_ids import matching_operator_id
from stateproc.serializers import Serializer

KeyTypes: TypeAlias = Mapping[str, Serializer]
"""Operator id, or EVERY, → the serializer of its keys."""
EVERY = ""
_ADVICE = 'give a type such as "Long", or a JSON object of operators\' uids and their types: {"orders": "Long"}'


def parse_key_types(spec: Any, operator_ids: Iterable[str]) -> KeyTypes:
    """Parse ``spec``: one type for all operators (of `stateproc.types`, or its text), or a mapping (or its JSON text)
    of uids or uid hashes to types.

    The beginning of a uid hash is accepted, too. Raises InvalidOption; NotFound for operators that the snapshot does
    not have.
    """
    if spec is None:
        return {}
    from stateproc import types  # Lazy: start-up; the type parser is needed only with this option.

    if isinstance(spec, str) and spec.lstrip().startswith("{"):
        spec = _parse_object(spec)
    if not isinstance(spec, Mapping):
        return {EVERY: types.of(spec)}
    known = set(operator_ids)
    parsed: dict[str, Serializer] = {}
    for name, type_ in spec.items():
        found = matching_operator_id(str(name), known)
        if found is None:
            raise not_found("operator with uid or uid hash", str(name), sorted(known))
        parsed[found] = types.of(type_)
    return parsed


def _parse_object(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"the key type {text[:60]!r} is not a JSON object: {error}", advice=_ADVICE) from error


def key_type_of(operator_id: str, key_types: KeyTypes) -> Serializer | None:
    """Return the key type that the user specified for the operator with this id; None if there is none."""
    return key_types.get(operator_id, key_types.get(EVERY))
