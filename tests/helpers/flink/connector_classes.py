"""Asks the classes of released connectors what they find in the splits of a source.

The programs are `jobs/positions`, written for the packages of Flink CDC 3; those of 2.4 have other names only.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.flink.compilation import JAVA, JOBS
from tests.helpers.flink.jars import cache, jars
from tests.helpers.flink.maven_central import Artifact, fetched
from tests.helpers.quick_java import QUICK_JAVA

_APACHE, _VERVERICA = "org.apache.flink.cdc", "com.ververica.cdc"


@dataclass(frozen=True)
class Connector:
    """A released connector, and the programs that ask it."""

    artifact: Artifact
    folders: tuple[str, ...]
    depends: bool = False

    @property
    def name(self) -> str:
        """Artifact and version, as the vectors name them."""
        return ":".join(self.artifact)


def _cdc(database: str, version: str) -> Connector:
    group = "com.ververica" if version.startswith("2.") else "org.apache.flink"
    folders = ("mysql",) if database == "mysql" else ("base", database)
    return Connector((group, f"flink-sql-connector-{database}-cdc", version), folders)


CONNECTORS = (
    *(_cdc("mysql", version) for version in ("2.4.2", "3.1.1", "3.5.0")),
    *(_cdc("postgres", version) for version in ("2.4.2", "3.5.0")),
    _cdc("mongodb", "3.5.0"),
    _cdc("oracle", "3.5.0"),
    Connector(("org.apache.flink", "flink-connector-pulsar", "4.1.0-1.18"), ("pulsar",), depends=True),
)


def asked(connector: Connector, lines: Sequence[str]) -> list[list[str]]:
    """Run the connector's program on lines of tab-separated fields; returns the fields of the lines that it prints."""
    home = cache() / f"connector-{connector.artifact[1]}-{connector.artifact[2]}"
    whole, alone = ([connector.artifact], []) if connector.depends else ([], [connector.artifact])
    own = fetched(whole, home, alone=alone)
    path = os.pathsep.join(map(str, [*own, *jars("1.20", "core")]))
    sources = [file for folder in connector.folders for file in sorted((JOBS / "positions" / folder).glob("*.java"))]
    texts = {file.name: file.read_text(encoding="utf-8") for file in sources}
    if connector.artifact[0] == "com.ververica":
        texts = {name: text.replace(_APACHE, _VERVERICA) for name, text in texts.items()}
    classes = home / f"classes-{hashlib.sha256(''.join(texts.values()).encode()).hexdigest()[:16]}"
    if not classes.is_dir():
        with tempfile.TemporaryDirectory(dir=home) as work:
            for name, text in texts.items():
                Path(work, name).write_text(text, encoding="utf-8")
            built = Path(work) / "classes"
            command = ["javac", "-nowarn", "-Xlint:-options", "-proc:none", "-cp", path, "-d", str(built)]
            subprocess.run([*command, *(str(Path(work, name)) for name in texts)], check=True)
            if not classes.is_dir():  # somebody else may have been faster
                built.rename(classes)
    run = [*JAVA, *QUICK_JAVA, "-cp", os.pathsep.join([str(classes), path]), "Splits"]
    found = subprocess.run(run, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    printed = [line.split("\t") for line in found.stdout.splitlines() if line.count("\t") == 2]
    assert len(printed) == len(lines), found.stdout + found.stderr
    return printed
