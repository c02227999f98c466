"""The states that a job declares, as a person writes them: kinds, and types in the words of `stateproc.types`.

    operators:
      - uid: orders                  # or id: its uid hash
        parallelism: 4
        max_parallelism: 128         # only if the job sets it
        key: Long
        states:
          - {name: total, kind: value, value: Long, ttl: true}
          - {name: items, kind: list, element: String}
          - {name: counts, kind: map, map_key: String, value: Long}
          - {name: buffer, kind: list, distribution: split, element: 'byte[]'}
          - {name: rules, kind: broadcast, map_key: String, value: String}

A type that is left out is not compared. Timers and namespaces follow from the operator and are not declared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from stateproc.compatibility.declared_job import (
    BROADCAST,
    KEY,
    KEYED,
    MAP_KEY,
    SPLIT,
    TIMERS,
    UNION,
    VALUE,
    DeclaredOperator,
    DeclaredState,
)
from stateproc.errors import InvalidOption
from stateproc.flink_versions import DEFAULT
from stateproc.keygroups.operator_ids import operator_id
from stateproc.serializers import Serializer
from stateproc.serializers.avro.serializer import Avro
from stateproc.serializers.compatibility import Answer, Comparison, resolve
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.structs import EitherOf, EnumOf, NullableOf, RowOf, TupleOf
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.serializers.pojo.serializer import Pojo
from stateproc.serializers.runtime.ttl import TtlSerializer
from stateproc.types.text import parse

Path = tuple[str | int, ...]
ErrorAt = Callable[[Path, str, str | None], InvalidOption]
"""Makes the error about the value at a path: of a file with its line."""
_KEYED_KINDS = ("value", "list", "map", "reducing", "aggregating")
_DISTRIBUTIONS = (KEYED, SPLIT, UNION, BROADCAST)
_OPERATOR = ("uid", "id", "parallelism", "max_parallelism", "key", "states")
_STATE = ("name", "kind", "distribution", "ttl", "element", "map_key", "value")
_TYPES = {"list": ("element",), "map": ("map_key", "value"), BROADCAST: ("map_key", "value")}
"""The types that states of a kind have; others have a value."""
_ID_DIGITS = 32


def _error_at(path: Path, problem: str, advice: str | None = None) -> InvalidOption:
    shown = "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in path).lstrip(".")
    return InvalidOption(f"{shown}: {problem}" if shown else problem, advice=advice)


def expected_operators(value: Any, error: ErrorAt = _error_at) -> tuple[DeclaredOperator, ...]:
    """Return the operators that a job declares. Raises InvalidOption if a part is missing, unknown, or no type."""
    if not isinstance(value, Mapping) or set(value) != {"operators"} or not isinstance(value["operators"], list):
        raise error((), "the states of a job are not a list of operators", "write operators: [{uid: …, states: […]}]")
    return tuple(_operator(item, ("operators", n), error) for n, item in enumerate(value["operators"]))


def _fields(value: Any, known: tuple[str, ...], path: Path, error: ErrorAt) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise error(path, "this is no object", f"give {', '.join(known)}")
    for name in value:
        if name not in known:
            raise error((*path, str(name)), f"there is no '{name}' here", f"there are: {', '.join(known)}")
    return value


def _operator(value: Any, path: Path, error: ErrorAt) -> DeclaredOperator:
    given = _fields(value, _OPERATOR, path, error)
    uid, hashed = given.get("uid"), given.get("id")
    if (uid is None) == (hashed is None):
        raise error(path, "an operator needs either its uid or its id", "give uid: as in .uid(…), or id: its hash")
    if hashed is not None and not (isinstance(hashed, str) and len(hashed) == _ID_DIGITS):
        raise error((*path, "id"), f"{hashed!r} is no uid hash", f"give its {_ID_DIGITS} hex digits in quotes")
    states = given.get("states", [])
    if not isinstance(states, list):
        raise error((*path, "states"), "this is no list", "write - {name: …, kind: …} for each state")
    numbers = {}
    for name in ("parallelism", "max_parallelism"):
        numbers[name] = number = given.get(name)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise error((*path, name), f"{number!r} is no number of subtasks", "give a positive number")
    key = _type(given, "key", path, error)
    return DeclaredOperator(
        operator_id(str(uid)) if uid is not None else str(hashed),
        None if uid is None else str(uid),
        None,
        numbers["parallelism"],
        numbers["max_parallelism"],
        () if key is None else (key,),
        tuple(_state(item, (*path, "states", n), error) for n, item in enumerate(states)),
    )


def _type(given: Mapping[str, Any], name: str, path: Path, error: ErrorAt) -> Serializer | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        return parse(text if isinstance(text, str) else str(text))
    except InvalidOption as problem:
        raise error((*path, name), problem.message, problem.advice) from problem


def _state(value: Any, path: Path, error: ErrorAt) -> DeclaredState:
    given = _fields(value, _STATE, path, error)
    name, kind = given.get("name"), given.get("kind")
    distribution = given.get("distribution", BROADCAST if kind == BROADCAST else KEYED)
    if not isinstance(name, str) or not name:
        raise error(path, "a state needs a name", "give name: that of its descriptor")
    kinds = _KEYED_KINDS if distribution == KEYED else (BROADCAST,) if distribution == BROADCAST else ("list",)
    if distribution not in _DISTRIBUTIONS or not isinstance(kind, str) or kind not in kinds:
        raise error(path, f"{kind!r} is no kind of {distribution} state", f"one of {', '.join(kinds)}")
    roles = _TYPES.get(kind, ("value",))
    for role in ("element", "map_key", "value"):
        if role in given and role not in roles:
            raise error((*path, role), f"a {kind} state has no {role}", f"it has {' and '.join(roles)}")
    types = {role: _type(given, role, path, error) for role in roles}
    return DeclaredState(
        name, kind, distribution, dict(stored_serializers(kind, distribution, types, given.get("ttl") is True))
    )


def stored_serializers(
    kind: str, distribution: str, types: Mapping[str, Serializer | None], ttl: bool
) -> Iterator[tuple[str, Serializer]]:
    """Yield the serializers that a backend registers, by role; ``types``: its ``map_key``, ``value`` or ``element``."""
    key, value = types.get("map_key"), types.get("value") or types.get("element")
    if value is not None and ttl:
        value = TtlSerializer(value)
    if distribution == KEYED and kind == "list":
        value = None if value is None else ListOf("List", value)
    elif distribution == KEYED and kind == "map":
        value = None if value is None or key is None else MapOf(key, value)
    elif key is not None:
        yield KEY, key
    if value is not None:
        yield VALUE, value


def as_stored(expected: DeclaredOperator, old: DeclaredOperator) -> DeclaredOperator:
    """Return the operator as the backend of the snapshot registers it, with its timers, which a job does not declare.

    Backends for asynchronous state (KEY_VALUE_V2) register elements of lists, keys and values of maps.
    """
    known = {state.identity: state for state in old.states}
    timers = tuple(state for state in old.states if state.distribution == TIMERS)
    states = tuple(_as_stored(state, known.get(state.identity)) for state in expected.states)
    return replace(expected, states=(*states, *timers), layouts=old.layouts)


def _as_stored(state: DeclaredState, old: DeclaredState | None) -> DeclaredState:
    value = state.serializers.get(VALUE)
    if old is None or old.kind != state.kind or state.distribution != KEYED:
        return state
    if isinstance(value, MapOf) and MAP_KEY in old.serializers:
        return replace(state, serializers={MAP_KEY: value.key, VALUE: value.value})
    if state.kind == "list" and isinstance(value, ListOf) and not isinstance(old.serializers.get(VALUE), ListOf):
        return replace(state, serializers={VALUE: value.element})
    return state


# Write what a snapshot declares as such a file.


def expectation(operators: tuple[DeclaredOperator, ...]) -> str:
    """Return YAML that `expected_operators` reads: the operators of a snapshot that have state.

    Types that have no name in `stateproc.types` are left out, with a comment.
    """
    lines = ["operators:"]
    for operator in operators:
        if not operator.states:
            continue
        named = f"uid: {json.dumps(operator.uid)}" if operator.uid else f"id: {json.dumps(operator.operator_id)}"
        lines += [f"  - {named}", f"    parallelism: {operator.parallelism}"]
        lines.append(f"    max_parallelism: {operator.max_parallelism}")
        if operator.keys:
            lines.append(_typed("    key", operator.keys[0]))
        lines.append("    states:")
        lines += [line for state in operator.states for line in _lines(state)]
    return "\n".join(lines) + "\n"


def _lines(state: DeclaredState) -> Iterator[str]:
    if state.distribution == TIMERS:
        return
    yield f"      - name: {json.dumps(state.name)}"
    yield f"        kind: {state.kind}"
    if state.distribution not in (KEYED, BROADCAST):
        yield f"        distribution: {state.distribution}"
    value = state.serializers.get(VALUE)
    key = state.serializers.get(KEY) if state.distribution == BROADCAST else state.serializers.get(MAP_KEY)
    if state.distribution == KEYED and state.kind == "list" and isinstance(value, ListOf):
        value = value.element
    elif state.distribution == KEYED and state.kind == "map" and isinstance(value, MapOf):
        key, value = value.key, value.value
    if isinstance(value, TtlSerializer):
        yield "        ttl: true"
        value = value.value
    if key is not None:
        yield _typed("        map_key", key)
    if value is not None:
        yield _typed("        element" if state.kind == "list" else "        value", value)


def _typed(name: str, serializer: Serializer) -> str:
    text = type_text(serializer)
    if text is None:
        return f"{name.replace(name.strip(), '# ' + name.strip())}: {serializer.type_name} has no name as a type"
    return f"{name}: {json.dumps(text, ensure_ascii=False)}"


def type_text(serializer: Serializer) -> str | None:
    """Return the type in the words of `stateproc.types`; None for one that has none."""
    text = _text(serializer)
    try:
        parsed = parse(text)
    except InvalidOption:
        return None
    same = resolve(serializer, parsed, Comparison(DEFAULT.kryo, DEFAULT)).answer <= Answer.RECONFIGURED
    return text if same and _is_exact(serializer, parsed) else None


def _is_exact(serializer: Serializer, parsed: Serializer) -> bool:
    """Whether the serializer fits state of the parsed type, too: types that only widen are not the same."""
    return resolve(parsed, serializer, Comparison(DEFAULT.kryo, DEFAULT)).answer <= Answer.RECONFIGURED


def _text(serializer: Serializer) -> str:
    if isinstance(serializer, Pojo):
        fields = ", ".join(f"{name}: {_text(part)}" for name, part in serializer.fields)
        return f"Pojo {serializer.class_name} {{{fields}}}"
    if isinstance(serializer, EnumOf):
        return f"Enum {serializer.class_name} {{{', '.join(name for _, name in serializer.constants)}}}"
    if isinstance(serializer, Kryo):
        return f"Kryo {serializer.class_name}"
    if isinstance(serializer, Avro):
        return f"Avro {serializer.text}"
    if isinstance(serializer, NullableOf):
        return f"Nullable<{_text(serializer.inner)}>"
    if isinstance(serializer, ListOf):
        inner = _text(serializer.element)
        return f"{inner}[]" if serializer.kind == "Array" else f"{serializer.kind}<{inner}>"
    if isinstance(serializer, MapOf):
        return f"Map<{_text(serializer.key)}, {_text(serializer.value)}>"
    if isinstance(serializer, TupleOf):
        return f"Tuple{len(serializer.fields)}<{', '.join(map(_text, serializer.fields))}>"
    if isinstance(serializer, RowOf):
        return f"Row<{', '.join(map(_text, serializer.fields))}>"
    if isinstance(serializer, EitherOf):
        return f"Either<{_text(serializer.left)}, {_text(serializer.right)}>"
    return serializer.type_name
