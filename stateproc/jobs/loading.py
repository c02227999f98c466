"""Load a job: parse it, replace its variables, validate it, and build its model."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from stateproc.errors import InvalidOption, Where, not_found
from stateproc.jobs.job_document import MOST_BYTES, JobDocument, Path, parse_document, scalar
from stateproc.jobs.job_model import Job, job_of
from stateproc.jobs.job_schema import validate
from stateproc.storage.store import StorePath

# Replace ``${name}`` and ``${env:NAME}`` in a job; ``${secret:NAME}`` stays a reference until it is used.

_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
SECRET, ENVIRONMENT = "secret:", "env:"
DATE, RUN_ID = "date", "run_id"
_BUILT_IN = (DATE, RUN_ID)
_SECRETS_DIRECTORY = "STATEPROC_SECRETS"
"""The environment variable that names the directory of secrets' files, as Docker and Kubernetes mount them."""
_MOST_SECRET_BYTES = 64 << 10


def resolved(document: JobDocument, given: Mapping[str, str], environment: Mapping[str, str]) -> JobDocument:
    """Return the document with its variables replaced; the section ``variables`` contains their values.

    Those of ``given`` replace them.

    ``${run_id}`` stays: it may depend on the resolved job. A value that is one reference gets the type of the
    variable's default: with ``n: 4``, ``parallelism: "${n}"`` is a number, whatever ``given`` contains for it.

    Raises:
        InvalidOption: A reference cannot be parsed, or its environment variable is not set.
        NotFound: There is no such variable.
    """
    declared = document.value.get("variables") if isinstance(document.value, dict) else None
    declared = declared if isinstance(declared, dict) else {}
    for name in given:
        if name not in declared and name not in _BUILT_IN:
            raise not_found("variable", name, [*declared, *_BUILT_IN], "the job").at(file=document.name)
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    values: dict[str, Any] = {DATE: given.get(DATE, today)}
    resolver = _Resolver(document, values, environment)
    for name, value in declared.items():
        if not _NAME.fullmatch(name):
            raise document.error(("variables", name), f"'{name}' is no name of a variable", "use letters, digits and _")
        if name in given:
            values[name] = given[name] if isinstance(value, str) else scalar(given[name])
        else:
            values[name] = resolver.value(value, ("variables", name))
    value = resolver.value({key: item for key, item in _items(document.value) if key != "variables"}, ())
    if declared:
        value["variables"] = {name: values[name] for name in declared}
    return replace(document, value=value)


def with_run_id(value: Any, run_id: str) -> Any:
    """Return values with ``${run_id}`` replaced."""
    return _mapped(value, lambda text: text.replace("${run_id}", run_id))


def _mapped(value: Any, function: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(item, function) for key, item in value.items()}
    if isinstance(value, list):
        return [_mapped(item, function) for item in value]
    return function(value) if isinstance(value, str) else value


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


@dataclass
class _Resolver:
    document: JobDocument
    values: Mapping[str, Any]
    environment: Mapping[str, str]

    def value(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: self.value(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, (*path, n)) for n, item in enumerate(value)]
        if not isinstance(value, str) or "${" not in value:
            return value
        one = _REFERENCE.fullmatch(value)
        if one is not None:
            return self._reference(one[1], path)
        return _REFERENCE.sub(lambda match: _text_of(self._reference(match[1], path)), value)

    def _reference(self, name: str, path: Path) -> Any:
        if name.startswith(SECRET):
            if not _SECRET_NAME.fullmatch(name[len(SECRET) :]):
                raise self.document.error(path, f"'{name[len(SECRET) :]}' is no name of a secret")
            return "${" + name + "}"
        if name.startswith(ENVIRONMENT):
            found = self.environment.get(name[len(ENVIRONMENT) :])
            if found is None:
                raise self.document.error(
                    path,
                    f"the environment variable {name[len(ENVIRONMENT) :]} is not set",
                    "set it, or use a variable of the job, which --set gives",
                )
            if "${" in found:
                raise self.document.error(path, f"the value of {name[len(ENVIRONMENT) :]} contains '${{'")
            return found
        if name == RUN_ID:
            return "${run_id}"
        if name in self.values:
            return self.values[name]
        raise self.document.error(
            path, f"there is no variable '{name}'", "declare it in `variables:`, or give it with --set name=value"
        )


@dataclass
class Secrets:
    """The secrets of a run, by name; values are read when they are used, and removed from every text that leaves it."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    _read: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def used(self) -> bool:
        """Whether the value of a secret was read."""
        return bool(self._read)

    def reveal(self, value: Any) -> Any:
        """Return values with ``${secret:NAME}`` replaced. Raises NotFound."""
        return _mapped(value, lambda text: _REFERENCE.sub(self._replaced, text))

    def redact(self, value: Any) -> Any:
        """Return values in which the name of a secret replaces its value."""
        return _mapped(value, self.redact_text)

    def redact_text(self, text: str) -> str:
        """Return a text in which names of secrets replace their values, longer ones first, also within URLs."""
        for name, value in sorted(self._read.items(), key=lambda item: -len(item[1])):
            for form in (value, quote(value, safe="")):
                if form:
                    text = text.replace(form, "${" + SECRET + name + "}")
        return text

    def _replaced(self, match: re.Match[str]) -> str:
        reference = match[1]
        return self._value(reference[len(SECRET) :]) if reference.startswith(SECRET) else match[0]

    def _value(self, name: str) -> str:
        if name not in self._read:
            found = self.environment.get(f"STATEPROC_SECRET_{name}")
            self._read[name] = self._of_file(name) if found is None else found
        return self._read[name]

    def _of_file(self, name: str) -> str:
        directory = self.environment.get(_SECRETS_DIRECTORY, "/run/secrets")
        try:
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                return file.read(_MOST_SECRET_BYTES).rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidOption(
                f"there is no secret '{name}'",
                advice=f"set STATEPROC_SECRET_{name}, or write a file of this name to {directory}, or to the directory "
                f"in {_SECRETS_DIRECTORY}",
            ) from error


_TEMPLATE = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_]*)\}")
_RUN_ID = re.compile(r"[A-Za-z0-9_.:+-]{1,100}")
_MOST_VALUES = 100_000


def load_job(
    job: Mapping[str, Any] | str | os.PathLike[str],
    variables: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Job:
    """Load a job.

    Args:
        job: The path of a YAML or JSON file, local or of any storage that fsspec knows, or the job as a dict.
        variables: Values that override those of the section ``variables``; also ``date`` and ``run_id``.
        environment: The environment; default that of the process.

    Raises:
        InvalidOption: The job is not valid; the error shows the line.
        NotFound: A variable does not exist.
        MissingFile: The file does not exist.
    """
    given = {name: str(value) for name, value in (variables or {}).items()}
    run_id = given.get(RUN_ID)
    if run_id is not None and not _RUN_ID.fullmatch(run_id):
        raise InvalidOption(f"the run id {run_id!r}", advice="give letters, digits and _.:+-")
    document = _document(job)
    document = resolved(_with_references(document), given, os.environ if environment is None else environment)
    validate(document)
    return job_of(document, run_id)


def _document(job: Mapping[str, Any] | str | os.PathLike[str]) -> JobDocument:
    if isinstance(job, Mapping):
        counted = [0]
        return JobDocument(None, _plain(job, 0, counted))
    path = StorePath.of(job)
    where, found = Where(file=path.uri), path.status()
    if found is None or found.is_directory:
        what = "is a directory" if found else "does not exist"
        raise InvalidOption(f"the job file {what}", where=where, advice="give the path of a YAML file")
    if found.size > MOST_BYTES:
        raise InvalidOption(f"a job file of {found.size} bytes", where=where)
    try:
        text = path.read_range(0, found.size).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidOption(f"the job file is no UTF-8: {error}", where=where) from error
    return parse_document(text, os.fspath(job))


def _plain(value: Any, depth: int, counted: list[int]) -> Any:
    """Copy a dict, so that nothing changes it meanwhile. Raises InvalidOption for what no job file can contain."""
    counted[0] += 1
    if depth > 24 or counted[0] > _MOST_VALUES:
        raise InvalidOption("the job is nested too deep, or too large")
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1, counted) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1, counted) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise InvalidOption(f"a job cannot contain {value!r}", advice="give text, numbers, lists and dicts")


def _with_references(document: JobDocument) -> JobDocument:
    """Replace ``{date}`` in the paths that a run writes by ``${date}``."""
    value = document.value
    if not isinstance(value, dict):
        return document
    value = dict(value)
    for name in ("latest", "report"):
        if isinstance(value.get(name), str):
            value[name] = _TEMPLATE.sub(r"${\1}", value[name])
    target = value.get("target")
    if isinstance(target, dict) and isinstance(target.get("path"), str):
        value["target"] = {**target, "path": _TEMPLATE.sub(r"${\1}", target["path"])}
    return replace(document, value=value)
