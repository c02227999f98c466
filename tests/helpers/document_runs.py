"""Run the commands and programs of Markdown files, as a user would."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from stateproc import SavepointWriter
from tests.helpers.cases import case_snapshots
from tests.helpers.flink.jars import cache
from tests.helpers.markdown_fences import blocks, commands, matches
from tests.helpers.paths import ROOT
from tests.helpers.quick_java import QUICK_SPARK
from tests.helpers.writers.source_savepoints import kinesis_savepoint, mysql_savepoint

SECONDS = 600
_SPARK = {
    **QUICK_SPARK,
    # Some local Maven repositories have project files without their jars.
    "spark.jars.ivySettings": str(ROOT / "tests/docs/ivysettings.xml"),
    "spark.jars.ivy": str(cache() / "ivy"),
}
"""What a machine's `spark-defaults.conf` may say: programs set what they need otherwise."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a user's shell with the project installed."""
    bin_folder = str(Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "140",
        "PYTHONUNBUFFERED": "",  # as in a user's shell; some images set it, which hides what is not flushed
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            [*(f"--conf={name}={value}" for name, value in _SPARK.items()), "pyspark-shell"]
        ),
        **(extra or {}),
    }


def check_commands(document: Path, folder: Path, extra: Mapping[str, str] | None = None) -> None:
    """Run the commands of a document in a folder; fail if one prints something else than is shown."""
    variables = dict(extra or {})
    write_files(document, folder)
    for command in commands(document):
        assigned = re.fullmatch(r"(\w+)=(\S+|\$\(.+\))", command.line)
        if assigned:
            line = f'{command.line}; printf %s "${assigned[1]}"'
            variables[assigned[1]] = subprocess.check_output(
                ["bash", "-c", line], cwd=folder, env=environment(variables), text=True, timeout=SECONDS
            )
            continue
        done = subprocess.run(
            ["bash", "-c", f"{command.line} 2>&1"],
            cwd=folder,
            env=environment(variables),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        place = f"{document.name}:{command.at}"
        assert "Traceback" not in done.stdout, f"{place}\n{done.stdout}"
        assert matches(command.output, done.stdout), f"{place} prints\n{done.stdout}\nand not\n{command.output}"


_NAMED_FILE = re.compile(r"# ([\w.-]+\.(?:yaml|py))\n")


def write_files(document: Path, folder: Path) -> None:
    """Write the blocks of a document that begin with the name of a file, such as ``# job.yaml`` or ``# move.py``."""
    for _, text in (*blocks(document, "yaml"), *blocks(document, "python")):
        named = _NAMED_FILE.match(text)
        if named:
            (folder / named[1]).write_text(text.removeprefix(named[0]), encoding="utf-8")


def program_of(document: Path) -> str | None:
    """Return the document's Python blocks as one program; None if it imports nothing: then it shows fragments."""
    run = {command.line for command in commands(document)}
    snippets = [
        block
        for block in blocks(document, "python")
        if not ((named := _NAMED_FILE.match(block[1])) and f"python {named[1]}" in run)
    ]
    if not any(re.search(r"^(import|from) ", text, re.MULTILINE) for _, text in snippets):
        return None
    return "\n".join("\n" * 2 + text for _, text in snippets)


def uses_spark(document: Path) -> bool:
    """Return whether a document's program has a Spark session."""
    return "SparkSession" in (program_of(document) or "")


_CONSUMER = "savepoint-of-old-kafka"
"""A savepoint of a job with FlinkKafkaConsumer."""


def _write_consumer(target: Path) -> None:
    """Write the savepoint of a case without the topic that has no name which Kafka allows."""
    source = next(item.path for item in case_snapshots() if item.case == "kafka-consumer")
    writer = SavepointWriter.from_existing_savepoint(None, source, {"uids": ["old-kafka"]})
    writer.set_kafka_offsets("old-kafka", remove=["größe:0", "größe:1"]).write(target)


_SOURCES = {
    "savepoint-of-mysql-cdc": (mysql_savepoint, "customers-from-mysql"),
    "savepoint-of-kinesis": (kinesis_savepoint, "orders-from-kinesis"),
}
"""Savepoints of sources that need a service."""
_CONNECTORS = re.compile(r"^\$ .* connectors/", re.MULTILINE)
"""Commands on the savepoints of jobs with connectors."""


def unpack_connector_savepoints(folder: Path) -> None:
    """Unpack the savepoints of tests/vectors/connectors."""
    with tarfile.open(ROOT / "tests/vectors/connectors/savepoints.tar.xz") as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)


def folder_of(document: Path, folder: Path, snapshots: Path | None = None) -> Path:
    """Return a folder to run in, with the fixtures if the document names them, and with the bundled snapshots."""
    if re.search(r"tests/(fixtures|vectors)/", document.read_text(encoding="utf-8")):
        (folder / "tests").symlink_to(ROOT / "tests")
    if _CONSUMER in document.read_text(encoding="utf-8"):
        _write_consumer(folder / _CONSUMER)
    for name, (write, uid) in _SOURCES.items():
        if name in document.read_text(encoding="utf-8"):
            write(folder / name, uid)
    if _CONNECTORS.search(document.read_text(encoding="utf-8")):
        unpack_connector_savepoints(folder / "connectors")
    if snapshots is not None:
        (folder / "snapshots").symlink_to(snapshots)
    return folder


def check_printed(document: Path, printed: str) -> None:
    """Fail unless a document's program printed what each of its `text` blocks shows."""
    for shown in blocks(document, "text"):
        assert matches("…" + shown[1] + "…", printed), f"{document.name}:{shown[0]} prints\n{printed}"
