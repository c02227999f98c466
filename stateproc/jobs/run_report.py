"""The report of a run: inputs, what was written, checks, durations, warnings."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from stateproc.jobs.input_versions import file_hash
from stateproc.storage.layout import METADATA, run_of_marker
from stateproc.storage.store import StorePath
from stateproc.storage.writing import publish
from stateproc.writers.commit.commit import MANIFEST

RunStatus = Literal["written", "unchanged", "planned", "failed"]
SUCCESS: tuple[RunStatus, ...] = ("written", "unchanged", "planned")


@dataclass(frozen=True)
class CheckResult:
    """A check and what it found; ``passed`` is None where it was not evaluated."""

    name: str
    kind: str
    passed: bool | None
    found: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"name": self.name, "kind": self.kind, "passed": self.passed, "found": self.found}


@dataclass
class RunReport:
    """What a run did.

    Attributes:
        job: The job's name.
        status: ``written``; ``unchanged``: a run of the same job and inputs has written the target already;
            ``planned``: nothing was written; ``failed``.
        run_id: Names the run in paths.
        fingerprint: The hash of the job and of the versions of its inputs.
        target: The directory of the savepoint.
        engine: ``local`` or ``spark``.
        inputs: The inputs and their versions.
        plan: What happens to each operator and state, as ``SavepointPlan.to_dict`` returns it.
        write: What was written, as ``WriteReport.to_dict`` returns it; None if nothing was.
        checks: The checks and what they found.
        seconds: The duration of each phase.
        warnings: What a user should know.
        latest: The pointer that was switched.
        error: Why the run failed.
        started: ISO-8601 in UTC.
    """

    job: str
    status: RunStatus = "failed"
    run_id: str = ""
    fingerprint: str = ""
    target: str = ""
    engine: str = "local"
    inputs: list[dict[str, Any]] = field(default_factory=list)
    plan: dict[str, Any] | None = None
    write: dict[str, Any] | None = None
    checks: list[CheckResult] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    latest: str | None = None
    error: str | None = None
    started: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the duration of what is done within the context."""
        before = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0) + time.monotonic() - before, 3)

    def warn(self, text: str) -> None:
        """Add a warning, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "job": self.job,
            "status": self.status,
            "run_id": self.run_id,
            "fingerprint": self.fingerprint,
            "target": self.target,
            "engine": self.engine,
            "started": self.started,
            "inputs": self.inputs,
            "plan": self.plan,
            "write": self.write,
            "checks": [item.to_dict() for item in self.checks],
            "seconds": dict(self.seconds),
            "warnings": list(self.warnings),
            "latest": self.latest,
            "error": self.error,
        }


# Keep the manifest of a run beside ``_metadata``, by which a later run recognizes the savepoint and its inputs.
#
# The manifest contains the hash of ``_metadata``: one that a killed run has left, or whose snapshot was replaced by
# something else, is ignored.

_VERSION = 1
_MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class RunManifest:
    """What a run wrote.

    Attributes:
        job: The job's name.
        run_id: The run's id.
        fingerprint: The hash of the job and of the versions of its inputs.
        metadata_sha256: The hash of ``_metadata``.
        inputs: The inputs and their versions, as plain values.
        finished: Whether everything after the commit was done, too: the pointer and the report.
        write: The write's run, which is in the names of its files.
        report: The report of the run; empty until it is finished.
    """

    job: str
    run_id: str
    fingerprint: str
    metadata_sha256: str
    inputs: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False
    write: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the contents of the file."""
        values = {
            "manifest_version": _VERSION,
            "job": self.job,
            "run_id": self.run_id,
            "fingerprint": self.fingerprint,
            "metadata_sha256": self.metadata_sha256,
            "inputs": self.inputs,
            "finished": self.finished,
            "write": self.write,
            "report": dict(self.report),
        }
        return json.dumps(values, indent=1, ensure_ascii=False).encode("utf-8", "replace")

    def of_metadata(self, data: bytes, write: str) -> RunManifest:
        """Return the manifest of a snapshot with these bytes as its ``_metadata``, by a write's run."""
        return replace(self, metadata_sha256=hashlib.sha256(data).hexdigest(), write=write)

    def save(self, directory: StorePath) -> None:
        """Replace the manifest in a directory, atomically. Raises WriteFailed."""
        publish(directory / MANIFEST, self.to_bytes(), f".{MANIFEST}.part")


def has_snapshot(directory: StorePath) -> bool:
    """Return whether there is a ``_metadata``. Raises MissingFile if the store cannot be reached."""
    return (directory / METADATA).exists(fresh=True)


def manifest_of(directory: StorePath) -> RunManifest | None:
    """Return the manifest of the snapshot in a directory; None if there is none that belongs to it."""
    path = directory / MANIFEST
    found = path.file_status(fresh=True)
    if found is None or found.size > _MOST_BYTES or not has_snapshot(directory):
        return None
    manifest = _parsed(path.read_range(0, found.size))
    if manifest is None or manifest.metadata_sha256 != file_hash(directory / METADATA):
        return None
    return manifest


def _parsed(data: bytes) -> RunManifest | None:
    try:
        values = json.loads(data)
        if values["manifest_version"] != _VERSION:
            return None
        # Empty where there is none, as before releases that put it there.
        marker = f".stateproc-{values.get('write')}"
        return RunManifest(
            str(values["job"]),
            str(values["run_id"]),
            str(values["fingerprint"]),
            str(values["metadata_sha256"]),
            inputs=list(values["inputs"]),
            finished=bool(values["finished"]),
            write=run_of_marker(marker) or "",
            report=dict(values["report"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
