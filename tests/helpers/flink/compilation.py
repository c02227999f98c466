"""Compiles jobs against one set of jars and says how to run them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.helpers.flink.jars import SQL, home_of, jars, line_number
from tests.helpers.paths import HELPERS
from tests.helpers.quick_java import QUICK_JAVA

JOBS = HELPERS / "flink" / "jobs"
OPENED: tuple[str, ...] = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.net",
    "java.nio",
    "java.text",
)
OPENED += ("java.time", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch")
JAVA = ["java", "-Xmx2g", *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in OPENED)]
JAVA += ["--add-exports=java.base/sun.net.util=ALL-UNNAMED", "-XX:+IgnoreUnrecognizedVMOptions"]
JAVA += ["-Djava.security.manager=allow", "-Duser.timezone=UTC"]


def fixtures_path(release: str) -> str:
    """The class path of all jobs of `release`, compiled."""
    modern = [JOBS / "modern", JOBS / f"modern_{_line(release)}"] if release in ("1.20", "2.3") else []
    return compiled(release, "fixtures", [*core_folders(release), *modern])


def jobs_path(release: str) -> str:
    """The class path of the jobs that read restored state back or go on with it, and of those of queries."""
    modern = [JOBS / "modern", JOBS / f"modern_{_line(release)}"]
    folders = [*core_folders(release), *modern, *(JOBS / name for name in ("restoring", "continuing", "planned"))]
    return os.pathsep.join([str(JOBS / "planned"), compiled(release, "fixtures", folders)])


def queries_path(release: str) -> str:
    """The class path of the jobs of compiled plans, which Flink 1.15 and later have."""
    if release in SQL:
        return jobs_path(release)
    folders = [*core_folders(release), JOBS / "planned"]
    return os.pathsep.join([str(JOBS / "planned"), compiled(release, "sql", folders)])


def core_folders(release: str) -> list[Path]:
    """The folders that need no more than Flink's core."""
    return [JOBS / "common", JOBS / f"compat_{_line(release)}"]


def _line(release: str) -> str:
    return "v1" if line_number(release) < (2, 0) else "v2"


def compiled(release: str, set_name: str, folders: Iterable[Path], java: int | None = None) -> str:
    """Compiles all sources, unless these very ones are compiled already; returns the class path to run.

    `java`: the release of Java that their classes are for; by default the oldest on which Flink's release runs.
    """
    path = os.pathsep.join(map(str, jars(release, set_name)))
    sources = [file for folder in folders for file in sorted(folder.rglob("*.java"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sources)).hexdigest()[:16]
    classes = home_of(release, set_name) / f"classes-{digest}"
    if not classes.is_dir():
        target = ["--release", str(java or (8 if line_number(release) < (2, 0) else 11))]
        with tempfile.TemporaryDirectory(dir=classes.parent) as fresh:
            built = Path(fresh) / "classes"
            command = [
                "javac",
                *(f"-J{option}" for option in QUICK_JAVA),
                *target,
                "-nowarn",
                "-Xlint:-options",
                "-proc:none",
                "-cp",
                path,
                "-d",
                str(built),
            ]
            subprocess.run([*command, *map(str, sources)], check=True)
            if not classes.is_dir():  # somebody else may have been faster
                built.rename(classes)
    return os.pathsep.join([str(classes), path])
