"""Run the jobs of tests/cases with real Flink: restore snapshots and return what the jobs find in them.

There are two runners: `tests/cases/Lab.java`, whose jobs report what they find, and `tests/cases/acme/Lab.java`, whose
jobs report whether it equals what they would write. One JVM restores any number of snapshots, one after the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.cases import CASE_SOURCES, manifest_of
from tests.helpers.flink.compilation import JAVA
from tests.helpers.flink.jars import home_of, jars
from tests.helpers.quick_java import QUICK_JAVA

Line = dict[str, Any]
_SECONDS = 600
_MORE_OPENED = ("java.io", "java.math", "java.util.function", "java.util.concurrent.locks")
_REPORTS, _COMPARES = "Lab", "com.acme.lab.Lab"
_RUNNERS = {_REPORTS: CASE_SOURCES / "Lab.java", _COMPARES: CASE_SOURCES / "acme" / "Lab.java"}


def release_of(case: str) -> str:
    """Return the release line of Flink whose snapshots a case has."""
    return str(manifest_of(case)["flink"]).rpartition(".")[0]


def job_path(case: str, release: str | None = None, without: Sequence[str] = ()) -> str:
    """Compile a runner and its jobs against the jars of a release; return the class path.

    All jobs that run with a release are compiled at once.

    Args:
        case: The case.
        release: The release line of Flink, by default that of the case's snapshots.
        without: Beginnings of the names of jars that are left out when the jobs run.
    """
    line, runner = release or release_of(case), _runner_of(case)
    found = jars(line, "cases")
    path = os.pathsep.join(map(str, found))
    sources = [_RUNNERS[runner], *_sources(line, runner, case)]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:16]
    classes = home_of(line, "cases") / f"case-{digest}"
    if not classes.is_dir():
        with tempfile.TemporaryDirectory(dir=classes.parent) as fresh:
            built = Path(fresh) / "classes"
            command = ["javac", "-nowarn", "-Xlint:none", "-proc:none", "-cp", path, "-d", str(built)]
            subprocess.run([*command, *map(str, sources)], check=True, capture_output=True)
            if not classes.is_dir():  # somebody else may have been faster
                built.rename(classes)
    kept = [str(jar) for jar in found if not jar.name.startswith(tuple(without))]
    return os.pathsep.join([str(classes), *kept])


def _lines_of(case: str) -> set[str]:
    """Return the release lines with which the jobs of a case run: the snapshots' and those of `restores`."""
    others = (entry.get("release") for entry in manifest_of(case).get("restores", ()))
    return {release_of(case), *(line for line in others if line)}


def _runner_of(case: str) -> str:
    return _COMPARES if any(_is_compared(file) for file in (CASE_SOURCES / case / "src").glob("*.java")) else _REPORTS


@cache
def _is_compared(file: Path) -> bool:
    return "package com.acme.lab;" in file.read_text(encoding="utf-8")


def _sources(line: str, runner: str, case: str) -> list[Path]:
    """Return the sources of all jobs in Java that run on a release under a runner; those that cases share, once."""
    cases = [path.parent.name for path in sorted(CASE_SOURCES.glob("*/case.json"))]
    together = [one for one in cases if line in _lines_of(one) and _runner_of(one) == runner and not _has_scala(one)]
    files = (file for one in (together if case in together else [case]) for file in _sources_of(one))
    found = {file.name: file for file in files if file.suffix == ".java"}
    return [found[name] for name in sorted(found)]


def _sources_of(case: str) -> list[Path]:
    return sorted((CASE_SOURCES / case / "src").iterdir())


def _has_scala(case: str) -> bool:
    return any(file.suffix == ".scala" for file in _sources_of(case))


def run_java(path: str, *arguments: str) -> str:
    """Run a class; return what it prints, or raise an AssertionError with it."""
    command = [*JAVA, *QUICK_JAVA, *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _MORE_OPENED)]
    command += ["-Xmx1g", "-Dfile.encoding=UTF-8", "-cp", path, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-1000:]}"
    return done.stdout


def found_by_runs(path: str, runs: Sequence[tuple[Sequence[str], Path]], folder: Path) -> list[list[Line] | str]:
    """Restore several snapshots in one JVM; return the lines of each run, or the errors of one that failed.

    Args:
        path: The class path, of one runner.
        runs: The arguments of the runner for each, and the folder where the job writes.
        folder: A folder for the list of runs.
    """
    listed = folder / "runs"
    listed.write_text("".join("\t".join(arguments) + "\n" for arguments, _ in runs), encoding="utf-8")
    runner = _COMPARES if (Path(path.split(os.pathsep)[0]) / "com" / "acme").is_dir() else _REPORTS
    printed = run_java(path, runner, "--runs", str(listed))
    return [_found(target, printed) for _, target in runs]


def _found(target: Path, printed: str) -> list[Line] | str:
    failure, lines = target / "failure.txt", target / "read.jsonl"
    if failure.is_file():
        return failure.read_text(encoding="utf-8").strip()
    assert lines.is_file(), printed[-3000:]
    return [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]


def reporting(job: str, snapshot: str, folder: Path, backend: str, arguments: Sequence[str] = ()) -> Sequence[str]:
    """Return the arguments under which a job that reports only reads a snapshot."""
    words = ["--job", job, "--backend", backend, "--read", "--from", snapshot, "--out", str(folder)]
    return [*words, *arguments]


def comparing(job: str, snapshot: str, folder: Path, backend: str, arguments: Sequence[str] = ()) -> Sequence[str]:
    """Return the arguments under which a job that compares reads a snapshot; the argument: its max parallelism."""
    return [job, backend, arguments[0] if arguments else "16", snapshot, str(folder)]


def compares(case: str) -> bool:
    """Whether the jobs of a case compare what they find with what they would write."""
    return _runner_of(case) == _COMPARES


def found_by_job(
    case: str, job: str, snapshot: str, folder: Path, *, backend: str = "hashmap", arguments: Sequence[str] = ()
) -> list[Line]:
    """Restore a snapshot in the job of a case that only reads; return the lines that it records.

    Args:
        case: The case.
        job: The class of the job.
        snapshot: The directory.
        folder: Where the job writes.
        backend: The state backend.
        arguments: Further arguments of the runner.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run = reporting(job, snapshot, folder, backend, arguments)
    (lines,) = found_by_runs(job_path(case), [(run, folder)], folder)
    assert not isinstance(lines, str), lines
    return lines
