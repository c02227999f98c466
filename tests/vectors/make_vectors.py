"""Write serializer vectors: values serialized by real Flink releases, as JSON that tests decode.

`python -m tests.vectors.make_vectors 1.20.3 2.3.0` fetches each release with Maven, compiles the generator under
`java/` against it, runs it and writes `flink-<release>.json` beside this file. Needs a JDK 17 and `mvn`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.paths import CACHE, VECTORS

GENERATOR = "stateproc.vectors.Main"
REFERENCES = (
    "1.20.3",
    "2.3.0",
)  # complete files; the others hold what differs from the one of their major release

# Artifact -> releases that have it (first inclusive, last exclusive); "_S" marks names with a Scala suffix.
Release = tuple[int, ...]
Artifact = tuple[str, str, str]  # group, name, version
ALWAYS: tuple[Release, Release] = ((1, 0), (9, 0))
PLAIN: dict[str, tuple[Release, Release]] = {
    "flink-core": ALWAYS,
    "flink-java": ((1, 0), (2, 0)),
    "flink-avro": ALWAYS,
    "flink-table-common": ALWAYS,
    "flink-runtime": ((1, 14), (9, 0)),
    "flink-streaming-java": ((1, 15), (9, 0)),
    "flink-cep": ((1, 15), (9, 0)),
    "flink-table-runtime": ((1, 15), (9, 0)),
    "flink-table-api-java": ((1, 9), (9, 0)),
    "flink-python": ((1, 16), (9, 0)),
    "flink-state-processor-api": ((2, 0), (9, 0)),
}
SUFFIXED: dict[str, tuple[Release, Release]] = {
    "flink-runtime": ((1, 0), (1, 14)),
    "flink-streaming-java": ((1, 0), (1, 15)),
    "flink-cep": ((1, 0), (1, 15)),
    "flink-table-runtime-blink": ((1, 9), (1, 14)),
    "flink-table-runtime": ((1, 14), (1, 15)),
    "flink-scala": ((1, 0), (2, 0)),
    "flink-streaming-scala": ((1, 0), (2, 0)),
    "flink-table-api-scala": ((2, 0), (9, 0)),
    "flink-statebackend-rocksdb": ((1, 0), (1, 13)),
    "flink-gelly": ((1, 8), (1, 17)),
}
# Source folders under java/ -> releases they are for, and the artifact they need.
GROUPS: dict[str, tuple[Release, Release, str]] = {
    "core": (*ALWAYS, "flink-core"),
    "avro": (*ALWAYS, "flink-avro"),
    "cep": (*ALWAYS, "flink-cep"),
    "scala": (*ALWAYS, "scala-library"),
    "table": ((1, 12), (9, 0), "flink-table-runtime"),
    "records": ((1, 19), (9, 0), "flink-core"),
}
# Versioned on its own; the newest line that still holds the old FlinkKafkaProducer of that release.
KAFKA: dict[Release, tuple[str, str]] = {
    (1, 20): ("flink-connector-kafka", "3.4.0-1.20"),
    (1, 19): ("flink-connector-kafka", "3.3.0-1.19"),
    (2, 0): ("flink-connector-kafka", "4.0.1-2.0"),
    (2, 3): ("flink-connector-kafka", "4.0.1-2.0"),
}
OPENS = (
    "java.lang",
    "java.util",
    "java.time",
    "java.net",
    "java.io",
    "java.math",
    "java.text",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
)


def parse(version: str) -> Release:
    """The release as numbers: `1.20.3` -> (1, 20, 5)."""
    return tuple(int(part) for part in version.split("."))


def scala_binary(release: Release) -> str:
    """The Scala line whose jars every serializer of this release exists for."""
    return "2.11" if release < (1, 13) else "2.12"


def dependencies(version: str) -> list[Artifact]:
    """Maven coordinates (group, artifact, version) holding the serializers of one release."""
    release = parse(version)
    names = [name for name, (first, last) in PLAIN.items() if first <= release < last]
    names += [f"{name}_{scala_binary(release)}" for name, (first, last) in SUFFIXED.items() if first <= release < last]
    found = [("org.apache.flink", name, version) for name in names]
    if release[:2] in KAFKA:
        found.append(("org.apache.flink", *KAFKA[release[:2]]))
    elif (1, 8) <= release < (1, 17):
        suffix = "" if release >= (1, 15) else f"_{scala_binary(release)}"
        found.append(("org.apache.flink", f"flink-connector-kafka{suffix}", version))
    return found


def pom(version: str, artifacts: list[Artifact]) -> str:
    """A throw-away Maven project depending on one Flink release."""
    entries = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{number}</version></dependency>"
        for group, name, number in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>stateproc</groupId><artifactId>vectors</artifactId><version>{version}</version>"
        f"<dependencies>{entries}</dependencies></project>"
    )


def cache(version: str) -> Path:
    """Where jars and classes of one release live, outside the repository."""
    return CACHE / f"vectors-{version}"


def fetch(version: str) -> Path:
    """The directory holding the jars of one release, filled through Maven once.

    Artifacts that the repository lacks are left out, and named on stderr.
    """
    home = cache(version)
    jars = home / "jars"
    artifacts = dependencies(version)
    while not (jars / ".complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        (home / "pom.xml").write_text(pom(version, artifacts), encoding="utf-8")
        command = ["mvn", "-q", "-B", "-f", str(home / "pom.xml"), "dependency:copy-dependencies"]
        done = subprocess.run([*command, f"-DoutputDirectory={jars}"], capture_output=True, text=True)
        missing = [one for one in artifacts if f"{one[0]}:{one[1]}:jar:{one[2]}" in done.stdout]
        if done.returncode == 0:
            (jars / ".complete").touch()
        elif missing:
            print(f"not in the repository: {missing}", file=sys.stderr)
            artifacts = [one for one in artifacts if one not in missing]
        else:
            raise SystemExit(done.stdout + done.stderr)
    return jars


def compile_generator(version: str, jars: Path) -> Path:
    """Compile the groups under `java/` that this release has."""
    classes = cache(version) / "classes"
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    release = parse(version)
    sources = [
        str(path)
        for group, (first, last, needs) in GROUPS.items()
        if first <= release < last and any(jars.glob(f"{needs}*.jar"))
        for path in sorted((VECTORS / "java" / group).rglob("*.java"))
    ]
    options = ["-nowarn", "-proc:none", "-g", "-encoding", "UTF-8", "-d", str(classes), "-cp", f"{jars}/*"]
    subprocess.run(["javac", *options, *sources], check=True)
    return classes


def run(version: str) -> Path:
    """Run the generator on one release and return the JSON file it wrote."""
    jars = fetch(version)
    classes = compile_generator(version, jars)
    target = VECTORS / f"flink-{version}.json"
    opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS]
    subprocess.run(
        [
            *("java", "-Xmx1g", "-XX:+UseSerialGC", "-Duser.timezone=UTC", *opens),
            *("-cp", f"{classes}:{jars}/*", GENERATOR, version, str(target)),
        ],
        check=True,
    )
    document = json.loads(target.read_bytes())
    for reference in REFERENCES:
        if reference != version and parse(reference)[0] == parse(version)[0]:
            without_repetition(document, reference)
            target.write_text(lines(document), encoding="ascii")
    return target


def without_repetition(document: dict[str, Any], reference: str) -> None:
    """Leave out what is equal, byte for byte, in the file of another release, and name it under `same_as`."""
    other = json.loads((VECTORS / f"flink-{reference}.json").read_bytes())
    known = {entry["name"]: entry for entry in other["serializers"]}
    same = [entry["name"] for entry in document["serializers"] if known.get(entry["name"]) == entry]
    document["serializers"] = [entry for entry in document["serializers"] if known.get(entry["name"]) != entry]
    for section in [name for name in document if name != "serializers"]:
        if document[section] == other.get(section):
            del document[section]
            same.append(section)
    document["same_as"] = {reference: same}


def lines(document: dict[str, Any]) -> str:
    """A document as JSON with one serializer on each line."""
    rest = {name: value for name, value in document.items() if name != "serializers"}
    entries = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in document["serializers"])
    return json.dumps(rest, separators=(",", ":"))[:-1] + f',\n"serializers":[\n{entries}\n]}}\n'


def main(versions: list[str]) -> None:
    """Write the vectors of every release named on the command line."""
    for version in versions or REFERENCES:
        print(run(version))


if __name__ == "__main__":
    main(sys.argv[1:])
