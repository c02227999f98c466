"""Fetch the jars of one Flink release from Maven Central into a cache outside the repository.

`python -m tests.helpers.flink.jars 1.20` prints the class path. The cache is `$STATEPROC_CACHE` or
`~/.cache/stateproc`. There are these sets of jars: `fixtures`, all that the committed fixtures need, the smaller `core`
for tests and benchmarks that run Flink each time, and `kafka` with the newest Kafka connector. `serializers` has the
serializers of all APIs: those of Avro, SQL and, of Flink 1, Scala. `cases` are those that
the jobs of `tests/cases` need beside Flink's: what a distribution has in `lib/`, and libraries of their values.
`sql` is what queries need in releases whose fixtures have none.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.helpers.flink.maven_central import Artifact, fetched
from tests.helpers.paths import CACHE

RELEASES = {
    "1.8": "1.8.3",
    "1.9": "1.9.3",
    "1.10": "1.10.2",
    "1.11": "1.11.6",
    "1.12": "1.12.7",
    "1.13": "1.13.6",
    "1.14": "1.14.6",
    "1.15": "1.15.4",
    "1.16": "1.16.3",
    "1.17": "1.17.2",
    "1.18": "1.18.1",
    "1.19": "1.19.3",
    "1.20": "1.20.3",
    "2.0": "2.0.1",
    "2.1": "2.1.1",
    "2.2": "2.2.0",
    "2.3": "2.3.0",
}
"""Release line → the version its fixtures are written by."""

KAFKA_CONNECTOR = {"1.20": "3.4.0-1.20", "2.3": "4.0.1-2.0"}
SQL = ("1.20", "2.3")
AVRO = {"2.0": "2.0.0"}
"""Where Maven Central does not have the Avro format of a line's version."""
CHANGELOG_SINCE = (1, 15)
"""The first release that has changelogs."""
CHANGELOG_FILES = {"1.15": "1.15.2", "1.16": "1.16.0", "1.17": "1.17.0"}
"""The newest writers of changelog files that Maven Central has of these lines, not all with a whole project file: they
are fetched without dependencies and run with the line's newest Flink."""
FORST = ("2.3",)
NEWEST_KAFKA_CONNECTOR = "5.0.0-2.2"
"""The first whose enumerator keeps splits."""
VALUE_LIBRARIES = {
    "1.20": [
        ("com.twitter", "chill-protobuf", "0.7.6"),
        ("com.google.protobuf", "protobuf-java", "3.25.5"),
        ("com.twitter", "chill-thrift", "0.7.6"),
        ("org.apache.thrift", "libthrift", "0.9.3"),
        ("de.javakaffee", "kryo-serializers", "0.45"),
        ("com.alibaba", "fastjson", "1.2.83"),
        ("com.google.code.gson", "gson", "2.11.0"),
        ("org.jetbrains.kotlin", "kotlin-stdlib", "2.2.0"),
    ]
}
"""Classes that jobs of `tests/cases` keep in state, and serializers for them; what they depend on would bring another
Kryo along."""
STATE_PROCESSOR_API = {"1.20": "1.20.0"}
"""The newest of a line that Maven Central has, where it is not the line's version."""


def line_number(release: str) -> tuple[int, int]:
    """`"1.20"` → `(1, 20)`, so that releases compare in their order."""
    major, minor = release.split(".")
    return int(major), int(minor)


def artifacts(release: str, set_name: str = "fixtures") -> list[Artifact]:
    """What the jobs of one release need."""
    if set_name == "core":
        names = ("streaming-java", "clients", "runtime", "statebackend-rocksdb")
        core = [("org.apache.flink", f"flink-{name}", RELEASES[release]) for name in names]
        version = STATE_PROCESSOR_API.get(release, RELEASES[release])
        processor = ("org.apache.flink", "flink-state-processor-api", version)
        return [*core, processor, ("org.slf4j", "slf4j-nop", "1.7.36")]
    if set_name == "serializers":
        serializers = ["streaming-java", "table-runtime", "table-api-java-bridge", "avro"]
        if line_number(release) < (2, 0):
            serializers.append("scala_2.12")
        versions = {"avro": AVRO.get(release, RELEASES[release])}
        found = [("org.apache.flink", f"flink-{name}", versions.get(name, RELEASES[release])) for name in serializers]
        return [*found, ("org.slf4j", "slf4j-nop", "1.7.36")]
    if set_name == "sql":
        names = ("streaming-java", "clients", "runtime", "statebackend-rocksdb")
        names += ("table-planner-loader", "table-runtime", "table-api-java-bridge")
        found = [("org.apache.flink", f"flink-{name}", RELEASES[release]) for name in names]
        return [*found, ("org.slf4j", "slf4j-nop", "1.7.36")]
    if set_name == "kafka":
        names = ("core", "connector-base")
        kafka = ("org.apache.flink", "flink-connector-kafka", NEWEST_KAFKA_CONNECTOR)
        return [*(("org.apache.flink", f"flink-{name}", RELEASES[release]) for name in names), kafka]
    if set_name == "cases":
        more = ("scala_2.12", "connector-files", "csv") if release == "1.20" else ()
        return [*artifacts(release), *(("org.apache.flink", f"flink-{name}", RELEASES[release]) for name in more)]
    version = RELEASES[release]
    number = line_number(release)
    old = "_2.12" if number < (1, 15) else ""
    runtime = "_2.12" if number < (1, 14) else ""
    flink = [
        f"flink-streaming-java{old}",
        f"flink-clients{old}",
        f"flink-runtime{runtime}",
        f"flink-statebackend-rocksdb{old}",
    ]
    if number >= CHANGELOG_SINCE:
        flink.append("flink-statebackend-changelog")
    if number >= CHANGELOG_SINCE and release not in CHANGELOG_FILES:
        flink.append("flink-dstl-dfs")
    if release in FORST:
        flink.append("flink-statebackend-forst")
    if release in KAFKA_CONNECTOR:
        flink.append("flink-connector-base")
    if release in SQL:
        flink += [
            "flink-table-planner-loader",
            "flink-table-runtime",
            "flink-table-api-java-bridge",
            "flink-avro",
        ]
    found = [("org.apache.flink", name, version) for name in flink]
    if release in KAFKA_CONNECTOR:
        found.append(("org.apache.flink", "flink-connector-kafka", KAFKA_CONNECTOR[release]))
    return [*found, ("org.slf4j", "slf4j-nop", "1.7.36")]


def alone(release: str, set_name: str = "fixtures") -> list[Artifact]:
    """Jars that are fetched without what they depend on."""
    if set_name == "cases":
        return [*alone(release), *VALUE_LIBRARIES.get(release, [])]
    if set_name != "fixtures" or release not in CHANGELOG_FILES:
        return []
    return [("org.apache.flink", "flink-dstl-dfs", CHANGELOG_FILES[release])]


def cache() -> Path:
    """The directory that holds what is fetched and built, outside the repository."""
    return CACHE


def home_of(release: str, set_name: str = "fixtures") -> Path:
    """Where the jars of one set lie, and the classes that were compiled with them."""
    return cache() / (f"flink-{RELEASES[release]}" + ("" if set_name == "fixtures" else f"-{set_name}"))


def jars(release: str, set_name: str = "fixtures") -> list[Path]:
    """The jars of `release`, fetched on first use and whenever the list of artifacts changes."""
    return fetched(artifacts(release, set_name), home_of(release, set_name), alone=alone(release, set_name))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(os.pathsep.join(map(str, jars(argument))))
