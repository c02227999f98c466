"""Run the jobs of tests/cases with real Flink: restore a snapshot and return what the job finds in it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.helpers.cases import CASE_SOURCES
from tests.helpers.flink.compilation import JAVA
from tests.helpers.flink.jars import home_of, jars

_SECONDS = 300
_MORE_OPENED = ("java.base/java.io", "java.base/java.math", "java.base/java.util.function", "java.base/sun.net.util")


def job_path(case: str, release: str) -> str:
    """Compile the runner and the sources of a case against Flink's jars; return the class path."""
    path = os.pathsep.join(str(jar) for jar in jars(release) if "table-planner" not in jar.name)
    sources = [CASE_SOURCES / "Lab.java", *sorted((CASE_SOURCES / case / "src").glob("*.java"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:16]
    classes = home_of(release) / f"case-{digest}"
    if not classes.is_dir():
        with tempfile.TemporaryDirectory(dir=classes.parent) as fresh:
            built = Path(fresh) / "classes"
            command = ["javac", "-nowarn", "-Xlint:none", "-proc:none", "-cp", path, "-d", str(built)]
            subprocess.run([*command, *map(str, sources)], check=True, capture_output=True)
            if not classes.is_dir():  # somebody else may have been faster
                built.rename(classes)
    return os.pathsep.join([str(classes), path])


def found_by_job(
    case: str, job: str, snapshot: str, folder: Path, *, release: str = "1.20", backend: str = "hashmap",
    arguments: tuple[str, ...] = (),
) -> list[dict[str, Any]]:  # fmt: skip
    """Restore a snapshot in the job of a case that only reads; return the lines that it records.

    Args:
        case: The case.
        job: The class of the job.
        snapshot: The directory.
        folder: Where the job writes.
        release: The release line of Flink.
        backend: The state backend.
        arguments: Further arguments of the runner.
    """
    command = [*JAVA, *(f"--add-opens={name}=ALL-UNNAMED" for name in _MORE_OPENED), "-XX:TieredStopAtLevel=1"]
    command += ["-Xmx1g", "-Dfile.encoding=UTF-8", "-cp", job_path(case, release), "Lab", "--job", job]
    command += ["--backend", backend, "--read", "--from", snapshot, "--out", str(folder), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-1000:]}"
    return [json.loads(line) for line in (folder / "read.jsonl").read_text(encoding="utf-8").splitlines()]
