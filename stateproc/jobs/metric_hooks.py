"""Pass the report of a run to commands and Python functions that a job names, if the user allows it."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Mapping
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.jobs.job_model import Job
from stateproc.jobs.run_report import SUCCESS, RunReport

_SECONDS = 300
_MOST_TEXT = 300


def check_allowed(job: Job, allowed: bool) -> None:
    """Raise InvalidOption for a job that runs code of its own, unless the user allows it."""
    if allowed:
        return
    advice = "allow it with --allow-hooks (allow_hooks=True), if you trust the file"
    if job.metrics:
        raise job.document.error(("metrics",), "this job runs commands or functions of its own", advice)
    sections = [("base", job.base.options if job.base else {})]
    sections += [(f"sources.{name}", source.values.get("open", {})) for name, source in job.sources.items()]
    for name, options in sections:
        if options.get("plugins"):
            raise job.document.error(tuple(name.split(".")), "this job imports modules of its own (plugins)", advice)


def call_hooks(job: Job, report: RunReport) -> None:
    """Call the hooks of a job; what fails becomes a warning of the report."""
    outcome = "success" if report.status in SUCCESS else "failure"
    values = report.to_dict()
    for hook in job.metrics:
        if hook.get("on", "always") in ("always", outcome):
            try:
                _call(hook, values)
            except Exception as error:  # a hook's own error must not fail the run
                report.warn(f"the hook {hook.get('command') or hook.get('python')} failed: {str(error)[:_MOST_TEXT]}")


def _call(hook: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    if "python" in hook:
        module, _, name = str(hook["python"]).partition(":")
        getattr(importlib.import_module(module), name)(values)
        return
    done = subprocess.run(
        hook["command"], input=json.dumps(values).encode(), capture_output=True, timeout=_SECONDS, check=False
    )
    if done.returncode != 0:
        shown = done.stderr.decode("utf-8", "replace").strip()[-_MOST_TEXT:]
        raise InvalidOption(f"exit status {done.returncode}: {shown}")
