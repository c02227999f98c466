"""Write type vectors: the serializer snapshot that real Flink makes for each type, by the text that names the type.

`python -m tests.vectors.make_types 1.20.3 2.3.0 1.13.6` writes `types-<release>.json` beside this file:
{"the type": hex}. Jars come from make_vectors.py. DataStream types are made without Avro on the class path, as most
jobs are: Kryo's snapshots depend on it. Needs a JDK 17 and `mvn`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.helpers.paths import VECTORS
from tests.vectors.make_vectors import OPENS, cache, fetch

MAIN = "stateproc.types.Main"
PARTS = ("plain", "sql", "avro")


def make(version: str) -> Path:
    """The file of one release."""
    jars = sorted(fetch(version).glob("*.jar"))
    classes = cache(version) / "types"
    shutil.rmtree(classes, ignore_errors=True)
    sources = [str(path) for path in sorted((VECTORS / "java" / "types").rglob("*.java"))]
    options = ["-nowarn", "-proc:none", "-encoding", "UTF-8", "-d", str(classes), "-cp", ":".join(map(str, jars))]
    subprocess.run(["javac", *options, *sources], check=True)
    found: dict[str, str] = {}
    for part in PARTS:
        path = [str(jar) for jar in jars if part == "avro" or "avro" not in jar.name]
        with tempfile.NamedTemporaryFile(suffix=".json") as target:
            opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS]
            command = ["java", "-Xmx512m", *opens, "-cp", ":".join([str(classes), *path]), MAIN, target.name, part]
            subprocess.run(command, check=True)
            found |= json.loads(Path(target.name).read_text(encoding="utf-8"))
    out = VECTORS / f"types-{version}.json"
    out.write_text(json.dumps(found, indent=0, ensure_ascii=True) + "\n", encoding="ascii")
    return out


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(make(argument))
