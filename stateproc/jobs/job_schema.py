"""Build the JSON Schema (draft 2020-12) of job files from the tables of options, state kinds and changes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stateproc.errors import package_for
from stateproc.jobs.job_document import JobDocument, Path
from stateproc.jobs.state_kinds import COLUMN, FLAG, STATE_KINDS, TEXT, TYPE, JobStateKind
from stateproc.options import OPEN_OPTIONS, Interface, OptionDefinition
from stateproc.writers.changes import CHANGES, ChangeDefinition

if TYPE_CHECKING:
    from jsonschema import ValidationError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
FILE_FORMATS = ("parquet", "csv", "json", "arrow", "delta", "jdbc", "iceberg")
OVERWRITE = ("never", "changed", "always")
OUTPUT_FORMATS = ("canonical", "native-hashmap", "native-rocksdb")
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_POSITIVE: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 32768}
_SETTINGS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "object", "null"]},
}
_TEXTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}


def job_schema() -> dict[str, Any]:
    """Return the schema of a job, after variables are replaced."""
    return {
        "$schema": DIALECT,
        "title": "stateproc job",
        "$defs": {"source": _source(), "operator": _operator(), "state": _state(), "change": _change()},
        **_object(
            {
                "job": {**TEXT, "description": "the job's name, in reports and in Spark's user interface"},
                "description": {"type": "string"},
                "variables": {
                    "type": "object",
                    "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
                    "description": "default values of ${name}",
                },
                "engine": {"enum": ["auto", "local", "spark"]},
                "spark": _object({"master": TEXT, "conf": _TEXTS}),
                "sources": {
                    "type": "object",
                    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                    "additionalProperties": {"$ref": "#/$defs/source"},
                },
                "base": _base(),
                "operators": {"type": "array", "items": {"$ref": "#/$defs/operator"}},
                "changes": {"type": "array", "items": {"$ref": "#/$defs/change"}},
                "target": _target(),
                "checks": {"type": "array", "items": _check()},
                "latest": {**TEXT, "description": "a file with the path of the newest savepoint, replaced atomically"},
                "report": {**TEXT, "description": "a file for the report as JSON"},
                "metrics": {"type": "array", "items": _hook()},
            },
            ["job", "target"],
        ),
    }


def _object(properties: dict[str, Any], required: list[str] | None = None, **more: Any) -> dict[str, Any]:
    made = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return {**made, "required": required} if required else made


def _open_options() -> dict[str, Any]:
    """The options with which snapshots are opened, as the option table has them."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {option.name: _option(option) for option in OPEN_OPTIONS if Interface.SPARK in option.interfaces},
    }


def _option(option: OptionDefinition) -> dict[str, Any]:
    described: dict[str, Any] = {"description": option.help}
    if option.type is tuple:
        return described | {"type": ["string", "array"], "items": {"type": "string"}}
    types = {bool: ["boolean", "string"], int: ["integer", "string"], str: ["string"], dict: ["object", "string"]}
    return described | ({"type": types[option.type]} if option.type in types else {})


def _source() -> dict[str, Any]:
    files = {
        "format": {"enum": list(FILE_FORMATS)},
        "path": {**TEXT, "description": "a file, a directory or a glob; of Iceberg also the name of a table"},
        "options": {**_TEXTS, "description": "options of the Spark reader, or of the DuckDB reader without Spark"},
        "storage_options": _SETTINGS,
        "schema": {**TEXT, "description": "columns and their types as Spark writes them: id BIGINT, name STRING"},
        "version": {"type": "integer", "minimum": 0, "description": "of a Delta table"},
        "timestamp": {**TEXT, "description": "the Delta table as it was then"},
        "snapshot_id": {"type": "integer", "description": "of an Iceberg table"},
        "url": TEXT,
        "table": TEXT,
        "query": TEXT,
        "version_query": {**TEXT, "description": "of JDBC: a query of one row, which changes when the rows do"},
    }
    snapshot = {
        "snapshot": TEXT,
        "uid": TEXT,
        "state": TEXT,
        "operator_state": TEXT,
        "timers": {"enum": ["event", "processing"]},
        "flatten": FLAG,
        "open": _open_options(),
    }
    made = _object({**files, "sql": TEXT, **snapshot})
    return {
        **made,
        "minProperties": 1,
        "allOf": [
            _when({"required": ["sql"]}, {"maxProperties": 1}),
            _when({"required": ["snapshot"]}, {"required": ["uid"], "propertyNames": {"enum": list(snapshot)}}),
            _when({"not": {"anyOf": [{"required": ["sql"]}, {"required": ["snapshot"]}]}}, {"required": ["format"]}),
            _when_format(("parquet", "csv", "json", "arrow", "delta", "iceberg"), {"required": ["path"]}),
            _when_format(("jdbc",), {"required": ["url"]}),
        ],
    }


def _when(condition: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    return {"if": condition, "then": then}


def _when_format(names: tuple[str, ...], then: dict[str, Any]) -> dict[str, Any]:
    return _when({"properties": {"format": {"enum": list(names)}}, "required": ["format"]}, then)


def _base() -> dict[str, Any]:
    return _object(
        {
            "path": {**TEXT, "description": "a savepoint or checkpoint"},
            "newest_checkpoint": {**TEXT, "description": "a directory: its newest completed checkpoint"},
            "newest_snapshot": {**TEXT, "description": "a directory: its newest completed savepoint or checkpoint"},
            "latest": {**TEXT, "description": "a file that contains the path, as `latest` of another job writes it"},
            "open": _open_options(),
        },
        oneOf=[{"required": [name]} for name in ("path", "newest_checkpoint", "newest_snapshot", "latest")],
    )


def _operator() -> dict[str, Any]:
    return _object(
        {
            "uid": TEXT,
            "extend": {**FLAG, "description": "add keyed states to the base's operator, instead of replacing it"},
            "key": COLUMN,
            "key_type": TYPE,
            "hash_column": COLUMN,
            "hash": {"type": "string", "minLength": 1},
            "parallelism": _POSITIVE,
            "max_parallelism": _POSITIVE,
            "states": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/state"}},
            "plan": {**TEXT, "description": "the compiled plan of the SQL job, which names and types all states"},
            "rows": {
                "type": ["string", "object"],
                "additionalProperties": TEXT,
                "description": "with `plan`: the source, or by the name of each state its source",
            },
            "ttl": {**FLAG, "description": "with `plan`: whether states have a time to live; default as it says"},
        },
        ["uid"],
        **{
            "if": {"required": ["plan"]},
            "then": {"required": ["rows"], "properties": dict.fromkeys((*_BY_HAND, "extend"), False)},
            "else": {"required": ["states"], "properties": {"rows": False, "ttl": False}},
        },
    )


_BY_HAND = ("states", "key", "key_type", "hash_column", "hash")
"""What says of an operator without a plan how its states and keys are made."""


def _state() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["kind", "source"],
        "properties": {"kind": {"enum": list(STATE_KINDS)}, "source": {**TEXT, "description": "the name of a source"}},
        "allOf": [
            _when({"properties": {"kind": {"const": name}}, "required": ["kind"]}, _arguments(kind))
            for name, kind in STATE_KINDS.items()
        ],
    }


def _arguments(kind: JobStateKind) -> dict[str, Any]:
    name = {"name": {**TEXT, "description": "the name of the state's descriptor"}} if kind.named else {}
    properties = {"kind": True, "source": True, **name, **kind.arguments}
    return _object(properties, ["name"] if kind.named else None, description=kind.help)


def _change() -> dict[str, Any]:
    """An object of one member: the name of a change, and its fields, as the table of changes has them."""
    return _object({item.name: _fields(item) for item in CHANGES}, minProperties=1, maxProperties=1)


def _fields(change: ChangeDefinition) -> dict[str, Any]:
    made = change.schema()
    return made if "required" in made else {**made, "type": ["object", "null"]}


def _target() -> dict[str, Any]:
    return _object(
        {
            "path": {**TEXT, "description": "a directory; {date}, {run_id} and {name} of variables are replaced"},
            "format": {"enum": list(OUTPUT_FORMATS)},
            "flink_version": {**TEXT, "description": "the release that restores the savepoint, 1.13 to 2.4"},
            "compressed": FLAG,
            "max_parallelism": _POSITIVE,
            "parallelism": {"type": "object", "additionalProperties": _POSITIVE, "description": "by uid"},
            "overwrite": {"enum": list(OVERWRITE), "description": "whether another savepoint there is replaced"},
            "verify": FLAG,
            "checkpoint_id": {**_COUNT, "description": "the id that a job which restores the savepoint counts on from"},
            "rocksdb_options": {**_TEXTS, "description": "options of native-rocksdb by Flink's keys"},
            "storage_options": _SETTINGS,
        },
        ["path"],
    )


def _check() -> dict[str, Any]:
    bounds = {"min": _COUNT, "max": _COUNT}
    return {
        **_object(
            {
                "name": TEXT,
                "rows": {**TEXT, "description": "a source"},
                "unique": {**TEXT, "description": "a source"},
                "columns": {"type": "array", "minItems": 1, "items": COLUMN},
                "state": {**TEXT, "description": "a state of the savepoint"},
                "uid": {**TEXT, "description": "the operator of `state`"},
                "sql": {**TEXT, "description": "a query of one row and one column, which must be true"},
                "restores": {
                    **TEXT,
                    "description": "the Flink version that restores the savepoint with the right values",
                },
                "like": {
                    **TEXT,
                    "description": "with `restores`: a snapshot of the job; default the job that wrote the base",
                },
                "to_plan": {**TEXT, "description": "with `restores`: the compiled plan of the job, of SQL: a file"},
                "from_plan": {
                    **TEXT,
                    "description": "with `to_plan`: the compiled plan of the query whose state it is, under these uids",
                },
                "expect": {
                    "type": "object",
                    "description": "with `restores`: the states that the job declares, as `describe --expect` has them",
                },
                "job": {
                    **TEXT,
                    "description": "with `restores`: a file with the job graph as Flink prints it, for its parallelism",
                },
                "backend": {"enum": ["hashmap", "rocksdb"], "description": "with `restores`: the job's state backend"},
                "claim_mode": {
                    "enum": ["NO_CLAIM", "CLAIM", "LEGACY"],
                    "description": "with `restores`: Flink's claim mode",
                },
                "on": {"enum": ["sources", "target"], "description": "what `sql` reads; default sources"},
                **bounds,
            }
        ),
        "dependentRequired": {
            **{
                name: ["restores"]
                for name in ("like", "to_plan", "from_plan", "expect", "job", "backend", "claim_mode")
            },
            "columns": ["unique"],
            "uid": ["state"],
            "on": ["sql"],
        },
        "dependentSchemas": {
            bound: {"anyOf": [{"required": ["rows"]}, {"required": ["state"]}]} for bound in ("min", "max")
        },
        "oneOf": [
            {"required": ["rows"], "anyOf": [{"required": ["min"]}, {"required": ["max"]}]},
            {"required": ["state", "uid"], "anyOf": [{"required": ["min"]}, {"required": ["max"]}]},
            {"required": ["unique", "columns"]},
            {"required": ["sql"]},
            {"required": ["restores"]},
        ],
    }


def _hook() -> dict[str, Any]:
    return _object(
        {
            "command": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "python": {"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"},
            "on": {"enum": ["success", "failure", "always"]},
        },
        oneOf=[{"required": ["command"]}, {"required": ["python"]}],
    )


# Validate a job against its JSON Schema; an error shows the line and names what is accepted.

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
    with package_for("a job"):
        from jsonschema import Draft202012Validator  # Lazy: optional dependency.
    if not isinstance(document.value, dict):
        raise document.error((), "a job is a mapping with at least `job` and `target`", "see docs/howto/jobs.md")
    errors: Iterable[ValidationError] = Draft202012Validator(job_schema()).iter_errors(document.value)
    # What is unknown, or belongs to something else, first: it is the reason why something else is missing.
    found = sorted(errors, key=lambda error: (document.lines.get(tuple(error.absolute_path), 0), _rank(error)))
    if found:
        path, problem, advice = _explained(found[0])
        raise document.error(path, problem, advice)


def _rank(error: ValidationError) -> int:
    if error.validator == "additionalProperties":
        return 0
    return 1 if _BELONGS & set(error.absolute_schema_path) else 2


_BELONGS = {"dependentRequired", "dependentSchemas"}


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


def _without(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    name = next(name for name, others in rule.items() if name in value and any(one not in value for one in others))
    needed = rule[name][0]
    said = error.schema["properties"][needed].get("description")
    return (name,), f"'{name}' is given without '{needed}'", f"add {needed}: {said}" if said else f"add {needed}"


def _without_any(value: Any, rule: Any, error: ValidationError) -> tuple[Path, str, str | None]:
    named = [str(name) for item in rule for name in item.get("enum", ())]
    if named:
        near = difflib.get_close_matches(str(value), named, n=1)
        types = [_TYPES[item["type"]] for item in rule if "type" in item]
        advice = f"did you mean '{near[0]}'?" if near else f"give {' or '.join([*types, *named])}"
        return (), f"{_short(value)} is not accepted here", advice
    name = str(error.absolute_schema_path[-2])
    needed = [item["required"][0] for item in rule]
    return (name,), f"'{name}' is given without {' or '.join(map(repr, needed))}", f"give one of: {', '.join(needed)}"


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
    "dependentRequired": _without,
    "anyOf": _without_any,
    "minProperties": _number_of_keys,
    "maxProperties": _number_of_keys,
    "minimum": _limit,
    "maximum": _limit,
}
"""By the keyword of the schema: from the value, the rule and the error to a relative path, problem and advice."""
