"""Load a job: parse it, replace its variables, validate it, and build its model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from stateproc.errors import InvalidOption, Where
from stateproc.jobs.job_document import MOST_BYTES, JobDocument, parse_document
from stateproc.jobs.job_model import Job, job_of
from stateproc.jobs.validation import validate
from stateproc.jobs.variables import RUN_ID, resolved
from stateproc.storage.filesystem import absolute, kind_of, read_range

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
    uri = absolute(os.fspath(job))
    found = kind_of(uri)
    if found is None or found[0] != "file":
        what = "is a directory" if found else "does not exist"
        raise InvalidOption(f"the job file {what}", where=Where(file=uri), advice="give the path of a YAML file")
    if found[1] > MOST_BYTES:
        raise InvalidOption(f"a job file of {found[1]} bytes", where=Where(file=uri))
    try:
        text = read_range(uri, 0, found[1]).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidOption(f"the job file is no UTF-8: {error}", where=Where(file=uri)) from error
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
