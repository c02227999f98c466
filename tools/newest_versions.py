"""Ask the registry for the newest releases of the dependencies, and find those that pyproject.toml excludes.

`python -m tools.newest_versions` prints what running the package needs, with all extras and without bounds; `make
test-newest` runs the unit tests with these. A range that ends before the newest release has its reason beside it: a
comment that begins `# Not NAME`, as in `# Not mkdocs 2: it has no plugins`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_FILE = Path(__file__).parents[1] / "pyproject.toml"
RUNNING = ("sql", "pandas", "jit", "spark", "rocksdb", "hdfs", "delta", "proto", "jobs")
"""The extras that people install to run the package, and that have no other release of PySpark or of S3's client."""


def requirements(text: str, extras: Iterable[str] | None = None) -> Iterator[Requirement]:
    """Yield the dependencies of a pyproject.toml on other packages.

    Args:
        text: The file.
        extras: Those whose packages are wanted, too; None for all.
    """
    project = tomllib.loads(text)["project"]
    optional: Mapping[str, list[str]] = project["optional-dependencies"]
    for group in (project["dependencies"], *(optional[name] for name in (optional if extras is None else extras))):
        found = (Requirement(item) for item in group)
        yield from (item for item in found if item.name != project["name"])


def newest_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the newest release of each package that the registry has for this Python, by pip's own report."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
    # One call each: releases that contradict each other are all wanted.
    found = {}
    for name in names:
        done = subprocess.run([*command, "--report", "-", name], capture_output=True, check=True)
        report: dict[str, Any] = json.loads(done.stdout)
        found[name] = str(report["install"][0]["metadata"]["version"])
    return found


def excluded(text: str, newest: Mapping[str, str]) -> list[str]:
    """Return a sentence about each requirement that excludes the newest release without a reason beside it."""
    return [
        f"{item.name} {newest[item.name]} is out, and pyproject.toml has {item}"
        for item in requirements(text)
        if not item.specifier.contains(newest[item.name])
        and not re.search(rf"(?m)# Not {re.escape(item.name)}\b", text)
    ]


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--without", default="", metavar="A,B", help="packages to leave out")
    left_out = parser.parse_args().without.split(",")
    found = requirements(PROJECT_FILE.read_text(encoding="utf-8"), RUNNING)
    print("\n".join(sorted({item.name for item in found} - set(left_out))))
