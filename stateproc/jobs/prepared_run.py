"""Prepare a run: find the base and the versions of its inputs, and derive fingerprint, run id and target."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from stateproc.catalog.entries import CatalogEntry
from stateproc.errors import CorruptSnapshot, InvalidOption, MissingFile, Where
from stateproc.jobs.input_versions import (
    InputVersion,
    delta_version,
    file_hash,
    files_version,
    iceberg_version,
    jdbc_version,
    snapshot_version,
)
from stateproc.jobs.job_model import SNAPSHOT, SQL, BaseSpec, Job, SourceSpec
from stateproc.jobs.loading import Secrets, with_run_id
from stateproc.metadata.snapshot_kind import CHECKPOINT
from stateproc.options import BY_NAME, STORAGE_PREFIX
from stateproc.storage import locate
from stateproc.storage.store import StorageOptions, StorePath
from stateproc.storage.uris import absolute, store_kind
from stateproc.storage.writing import make_directory, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The pointer to the newest savepoint: a file with its path, which is replaced atomically.

_MOST_BYTES = 8 << 10


def pointed_path(pointer: str, options: StorageOptions | None) -> str:
    """Return the path that a pointer contains.

    Raises:
        MissingFile: There is no such file.
        CorruptSnapshot: The file contains no path.
    """
    path = StorePath.of(pointer, options)
    where, found = Where(file=path.uri), path.file_status(fresh=True)
    if found is None:
        raise MissingFile(
            "there is no such pointer", where=where, advice="the first run of a job with `latest:` writes it"
        ) from FileNotFoundError(path.uri)
    text = path.read_range(0, min(found.size, _MOST_BYTES)).decode("utf-8", "replace").strip()
    if not text or "\n" in text or found.size >= _MOST_BYTES:
        raise CorruptSnapshot("the file does not contain the path of a snapshot", where=where)
    return text


def replaced(path: StorePath, data: bytes) -> None:
    """Write a file and its directory, at once: by one rename, on object stores by one put. Raises WriteFailed."""
    make_directory(path.parent)
    publish(path, data, f".{path.name}.part")


_FINGERPRINT_VERSION = 1
_RUN_ID_DIGITS = 12
_CONTENT_SECTIONS = ("base", "sources", "operators", "changes", "checks")
"""Sections of a job that decide on what is written."""
_CONTENT_SETTINGS = (
    "path",
    "format",
    "checkpoint_id",
    "flink_version",
    "compressed",
    "max_parallelism",
    "parallelism",
    "rocksdb_options",
)
"""Settings of the target that do."""
ASKED = {"jdbc": jdbc_version, "iceberg": iceberg_version}
"""Formats whose version only Spark can find."""
_READ_FILES = ("classes", "plan", "proto")
"""Options of reading that may be the path of a file."""


def _no_session() -> NoReturn:
    raise InvalidOption("a source is read by Spark only", advice="give `engine: spark`")


@dataclass(frozen=True)
class PreparedRun:
    """A job with the versions of its inputs.

    Attributes:
        base: The snapshot that is changed; None without one.
        inputs: The versions of all inputs by their names; ``base`` for the base.
        fingerprint: The hash of the job and of the versions of its inputs.
        run_id: The given id of the run, else the first digits of the fingerprint.
        target: The directory of the savepoint.
        latest: The pointer to be switched.
        report_path: Where the report is written.
    """

    job: Job
    base: str | None
    inputs: Mapping[str, InputVersion]
    fingerprint: str
    run_id: str
    target: str
    latest: str | None
    report_path: str | None
    secrets: Secrets = field(repr=False)

    @property
    def storage_options(self) -> dict[str, Any] | None:
        """The options of the target's file system, with secrets."""
        given = self.job.target.storage_options
        return None if given is None else dict(self.secrets.reveal(dict(given)))

    @property
    def target_path(self) -> StorePath:
        """The target; its options default to those of the base, if both are on stores of one kind."""
        options = self.storage_options
        if options is None and self.base is not None and store_kind(self.base) == store_kind(self.target):
            options = BY_NAME["storage_options"].value(self.base_options.get("storage_options"))
        return StorePath(self.target, options or {})

    @property
    def read_options(self) -> dict[str, Any]:
        """The options with which the base is read, as ``from_existing_savepoint`` accepts them."""
        options = self.base_options
        storage = BY_NAME["storage_options"].value(options.pop("storage_options", None)) or {}
        return {**options, **{f"{STORAGE_PREFIX}{name}": value for name, value in storage.items()}}

    @property
    def base_options(self) -> dict[str, Any]:
        """The options with which the base is read, with secrets."""
        return {} if self.job.base is None else dict(self.secrets.reveal(dict(self.job.base.options)))


def prepare(job: Job, secrets: Secrets, session: Callable[[], SparkSession] = _no_session) -> PreparedRun:
    """Find out what a run reads and where it writes.

    Args:
        session: Returns the Spark session of the run; called if only Spark can say which version an input has.

    Raises:
        MissingFile: An input does not exist.
        SnapshotError: An input cannot be read.
    """
    inputs: dict[str, InputVersion] = {}
    base = None
    if job.base is not None:
        base, inputs["base"] = _base(job.base, secrets)
    for source in job.sources.values():
        if source.format != SQL:
            inputs[source.name] = _source(source, secrets, session)
    fingerprint = _fingerprint(job, inputs)
    run_id = job.run_id or fingerprint[:_RUN_ID_DIGITS]
    target = absolute(with_run_id(job.target.path, run_id))
    return PreparedRun(
        job,
        base,
        inputs,
        fingerprint,
        run_id,
        target,
        None if job.latest is None else absolute(with_run_id(job.latest, run_id)),
        None if job.report is None else absolute(with_run_id(job.report, run_id)),
        secrets,
    )


def _base(base: BaseSpec, secrets: Secrets) -> tuple[str, InputVersion]:
    options = secrets.reveal(dict(base.options))
    storage = BY_NAME["storage_options"].value(options.get("storage_options")) or {}
    path = secrets.reveal(base.where)
    if base.how.startswith("newest"):
        path = _newest(path, storage, only_checkpoints=base.how == "newest_checkpoint")
    elif base.how == "latest":
        path = pointed_path(path, storage)
    location = locate(path, storage, BY_NAME["path_mapping"].value(options.get("path_mapping")))
    return location.directory_uri, snapshot_version("base", location)


def _newest(root: str, storage: Mapping[str, Any], *, only_checkpoints: bool) -> str:
    """Return the newest complete snapshot below a directory."""
    from stateproc.catalog.listing import ls  # Lazy: only for such bases.

    def is_wanted(entry: CatalogEntry) -> bool:
        return entry.status == "complete" and (not only_checkpoints or entry.kind == CHECKPOINT)

    found = [entry for entry in ls(root, storage_options=storage) if is_wanted(entry)]
    if not found:
        what = "checkpoint" if only_checkpoints else "snapshot"
        raise MissingFile(f"there is no completed {what} below this directory", where=Where(file=absolute(root)))
    return max(found, key=lambda entry: (entry.completed_at is not None, entry.completed_at, entry.checkpoint_id)).path


def _source(source: SourceSpec, secrets: Secrets, session: Callable[[], SparkSession]) -> InputVersion:
    values = secrets.reveal(dict(source.values))
    storage = values.get("storage_options") or {}
    if source.format == SNAPSHOT:
        opened = values.get("open", {})
        storage = BY_NAME["storage_options"].value(opened.get("storage_options")) or {}
        location = locate(values["snapshot"], storage, BY_NAME["path_mapping"].value(opened.get("path_mapping")))
        return snapshot_version(source.name, location)
    if source.format == "delta":
        return delta_version(source.name, values["path"], storage, values.get("version"), values.get("timestamp"))
    if source.format in ASKED:
        return ASKED[source.format](source.name, values, session)
    return files_version(source.name, source.format, values["path"], storage)


def _fingerprint(job: Job, inputs: Mapping[str, InputVersion]) -> str:
    """Hash what decides on the contents of the savepoint. Secrets are contained by name only."""
    value = job.document.value
    content: dict[str, Any] = {
        "version": _FINGERPRINT_VERSION,
        "sections": {name: value[name] for name in _CONTENT_SECTIONS if name in value},
        "target": {name: item for name, item in value["target"].items() if name in _CONTENT_SETTINGS},
        "inputs": {name: [item.format, item.path, dict(item.version)] for name, item in inputs.items()},
        "files": _described_files(value),
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _described_files(value: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of files with descriptions of classes and plans, which options of reading name."""
    sections = [value.get("base", {}), *value.get("sources", {}).values()]
    named = [item.get("open", {}).get(name) for item in sections for name in _READ_FILES]
    paths = [item for item in named if isinstance(item, str) and len(item) < 4096 and os.path.isfile(item)]
    return {path: file_hash(StorePath.of(path)) for path in paths}
