"""The report of a run: inputs, what was written, checks, durations, warnings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

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
