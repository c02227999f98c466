"""Jars from Maven Central, by Maven or, where there is none, by Ivy, which comes with Spark.

`python -m tests.helpers.flink.maven_central DIRECTORY GROUP:ARTIFACT:VERSION …` fetches these and what they depend on.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tests.helpers.quick_java import QUICK_JAVA

Artifact = tuple[str, str, str]
"""Group, artifact, version."""
_IVY = ("ivy", "commons-cli", "oro")
"""The jars of Spark that Ivy needs."""
_NAME = "[artifact]-[revision].[ext]"


def fetched(
    artifacts: Sequence[Artifact], home: Path, *, alone: Sequence[Artifact] = (), maven: str | None = "mvn"
) -> list[Path]:
    """The jars of the artifacts, and all that running with them needs, under ``home``.

    Fetched on first use and whenever the list changes, by one process at a time. Java 17 is needed. alone: what is
    fetched without what it depends on. maven: the command; Ivy is used if it is None or not there. Raises
    CalledProcessError.
    """
    home.mkdir(parents=True, exist_ok=True)
    complete, jars = home / "complete", home / "jars"
    wanted = "\n".join(":".join(artifact) for artifact in (*artifacts, *alone))
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.is_file() or complete.read_text() != wanted:
            complete.unlink(missing_ok=True)
            shutil.rmtree(jars, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=home) as work:
                if maven is not None and shutil.which(maven):
                    _by_maven(maven, artifacts, alone, Path(work), jars)
                else:
                    _by_ivy(artifacts, alone, Path(work), jars)
            complete.write_text(wanted)
    return sorted(jars.glob("*.jar"))


def _by_maven(maven: str, artifacts: Sequence[Artifact], alone: Sequence[Artifact], work: Path, target: Path) -> None:
    project = work / "pom.xml"
    project.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>stateproc</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{_elements('dependency', artifacts)}</dependencies>"
        "<build><plugins><plugin><artifactId>maven-dependency-plugin</artifactId><configuration>"
        f"<artifactItems>{_elements('artifactItem', alone)}</artifactItems>"
        "</configuration></plugin></plugins></build></project>"
    )
    goals = ["dependency:copy-dependencies", *(["dependency:copy"] if alone else [])]
    command = [maven, "-q", "-B", "-f", str(project), *goals, "-DincludeScope=runtime"]
    environment = {**os.environ, "MAVEN_OPTS": " ".join((os.environ.get("MAVEN_OPTS", ""), *QUICK_JAVA))}
    subprocess.run([*command, f"-DoutputDirectory={target}"], check=True, env=environment)


def _elements(name: str, artifacts: Sequence[Artifact]) -> str:
    return "".join(
        f"<{name}><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version></{name}>"
        for group, artifact, version in artifacts
    )


def _by_ivy(artifacts: Sequence[Artifact], alone: Sequence[Artifact], work: Path, target: Path) -> None:
    module = work / "ivy.xml"
    module.write_text(
        '<ivy-module version="2.0"><info organisation="stateproc" module="jars"/>'
        '<configurations><conf name="default"/></configurations><dependencies>'
        f"{_ivy_elements('default->master,runtime', artifacts)}{_ivy_elements('default->master', alone)}"
        "</dependencies></ivy-module>"
    )
    command = [
        "java",
        *QUICK_JAVA,
        "-cp",
        _ivy_path(),
        "org.apache.ivy.Main",
        "-error",
        "-ivy",
        str(module),
        "-confs",
        "default",
    ]
    subprocess.run([*command, "-cache", str(work / "cache"), "-retrieve", str(target / _NAME)], check=True)


def _ivy_elements(configuration: str, artifacts: Sequence[Artifact]) -> str:
    rest = f"conf={quoteattr(configuration)}/>"
    return "".join(
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} {rest}"
        for group, name, version in artifacts
    )


def _ivy_path() -> str:
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    return os.pathsep.join(str(jar) for name in _IVY for jar in sorted(folder.glob(f"{name}-[0-9]*.jar")))


def main(arguments: Sequence[str]) -> None:
    directory, *coordinates = arguments
    artifacts = [(group, name, version) for group, name, version in (text.split(":") for text in coordinates)]
    print(os.pathsep.join(map(str, fetched(artifacts, Path(directory)))))


if __name__ == "__main__":
    main(sys.argv[1:])
