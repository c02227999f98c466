"""Validate a job against its JSON Schema; an error shows the line and names what is accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stateproc.errors import MissingPackage
from stateproc.jobs.job_document import JobDocument, Path
from stateproc.jobs.job_schema import job_schema

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MOST_SHOWN = 60
_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "number": "a number",
    "null": "nothing",
}


def validate(document: JobDocument) -> None:
    """Raise InvalidOption for the first value, by its line, that the schema does not accept."""
    try:
        from jsonschema import Draft202012Validator  # Lazy: optional dependency.
    except ImportError as error:
        raise MissingPackage("jobs need the package jsonschema", advice="pip install 'stateproc[jobs]'") from error
    if not isinstance(document.value, dict):
        raise document.error((), "a job is a mapping with at least `job` and `target`", "see docs/howto/jobs.md")
    errors: Iterable[ValidationError] = Draft202012Validator(job_schema()).iter_errors(document.value)
    # What is unknown first: it is the reason why something else is missing.
    found = sorted(errors, key=lambda error: (_line(document, error), error.validator != "additionalProperties"))
    if found:
        path, problem, advice = _explained(found[0])
        raise document.error(path, problem, advice)


def _line(document: JobDocument, error: ValidationError) -> int:
    return document.lines.get(tuple(error.absolute_path), 0)


def _explained(error: ValidationError) -> tuple[Path, str, str | None]:
    """Return the path, the problem and the advice of a schema error, in the words of job files."""
    path: Path = tuple(error.absolute_path)
    value, rule = error.instance, error.validator_value
    describe = _RULES.get(str(error.validator))
    if describe is None:
        return path, f"{_short(value)} is not accepted here", _description(error)
    place, problem, advice = describe(value, rule, error)
    return path + place, problem, advice or _description(error)


def _description(error: ValidationError) -> str | None:
    found = error.schema.get("description") if isinstance(error.schema, dict) else None
    return f"it is {found}" if found else None


def _unknown_key(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    known = list(error.schema.get("properties", ()))
    name = next(key for key in value if key not in known)
    near = difflib.get_close_matches(str(name), known, n=1)
    return (name,), f"there is no '{name}' here", f"did you mean '{near[0]}'?" if near else _there_are(known)


def _unknown_name(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    child = error.context[0] if error.context else error
    return (), f"'{child.instance}' does not fit here", None


def _missing(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    return (), f"'{next(name for name in rule if name not in value)}' is missing", None


def _not_in(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    near = difflib.get_close_matches(str(value), [str(item) for item in rule], n=1)
    return (), f"{_short(value)} is not accepted here", f"did you mean '{near[0]}'?" if near else _there_are(rule)


def _wrong_type(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    names = [rule] if isinstance(rule, str) else rule
    return (), f"{_short(value)} is not {' or '.join(_TYPES[name] for name in names)}", None


def _one_of(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    required = [" and ".join(item["required"]) for item in rule if "required" in item]
    if not isinstance(value, dict) or not required:
        return (), f"{_short(value)} is not accepted here", None
    given = [names for names in required if names.split(" and ")[0] in value]
    if len(given) > 1:
        return (), f"{' and '.join(given)} are given both", "give one of them"
    if given and any("anyOf" in item for item in rule if " and ".join(item.get("required", ())) in given):
        missing = [name for name in given[0].split(" and ") if name not in value]
        return (), f"'{missing[0]}' is missing" if missing else "neither min nor max is given", None
    return (), "something is missing", f"give one of: {', '.join(required)}"


def _number_of_keys(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    return (), f"{len(value)} keys, where {rule} is accepted: {', '.join(map(str, value)) or 'none'}", None


def _limit(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    word = "less" if error.validator == "minimum" else "more"
    return (), f"{_short(value)} is {word} than {rule}", None


def _there_are(names: Iterable[Any]) -> str:
    return "there are: " + ", ".join(str(name) for name in names)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _MOST_SHOWN else shown[:_MOST_SHOWN] + "…"


_RULES: dict[str, Any] = {
    "additionalProperties": _unknown_key,
    "propertyNames": _unknown_name,
    "required": _missing,
    "enum": _not_in,
    "type": _wrong_type,
    "oneOf": _one_of,
    "minProperties": _number_of_keys,
    "maxProperties": _number_of_keys,
    "minimum": _limit,
    "maximum": _limit,
}
"""By the keyword of the schema: from the value, the rule and the error to a relative path, problem and advice."""
