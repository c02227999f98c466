"""Record what releases of Flink say of serializer snapshots that others wrote, with which `check` has to agree.

`python -m tests.helpers.flink.compatibility` writes `tests/vectors/compatibility/pairs.json.xz`; a release is one name
in `RECORDED`. Each release writes, with the classes of an old job, the snapshot of each case's serializer and a value,
with and without Avro on its class path; each asks itself, with the classes of the new job and Avro as the old one
has it, about all of them.

`restores.json` beside it was recorded with the same classes: restores of canonical savepoints of Flink 1.20.5 (RocksDB,
one operator each) into Flink 2.3.0, of each kind of state, and whether the values were equal.
"""

from __future__ import annotations

import json
import lzma
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.helpers.flink.compilation import JAVA, JOBS, compiled
from tests.helpers.flink.jars import RELEASES
from tests.helpers.paths import VECTORS
from tests.helpers.quick_java import QUICK_JAVA

RECORDED = ("1.16", "1.20", "2.0", "2.3")
PAIRS = VECTORS / "compatibility" / "pairs.json.xz"
_JOBS = JOBS / "compatibility"
_MAIN = "compatibility.Recording"
_CODES = ("old", "new", "bytes")


def record() -> dict[str, Any]:
    """Ask every release about what every release wrote."""
    texts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = []
        for old in RECORDED:
            for avro in (False, True):
                written = Path(folder) / f"{old}-{avro}"
                _run(old, "old", avro, "write", written)
                for new in RECORDED:
                    found = Path(folder) / "found.jsonl"
                    _run(new, "new", avro, "check", written, found)
                    rows = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
                    runs.append({"old": old, "new": new, "avro": avro, "pairs": [_coded(row, texts) for row in rows]})
    return {"releases": {line: RELEASES[line] for line in RECORDED}, "texts": list(texts), "runs": runs}


def _run(release: str, classes: str, avro: bool, *arguments: object) -> None:
    path = compiled(release, "serializers", [_JOBS / "common", _JOBS / classes], java=17)
    if not avro:
        path = os.pathsep.join(part for part in path.split(os.pathsep) if "avro" not in Path(part).name)
    subprocess.run([*JAVA, *QUICK_JAVA, "-cp", path, _MAIN, *map(str, arguments)], check=True)


def _coded(row: dict[str, Any], texts: dict[str, int]) -> dict[str, Any]:
    """Replace bytes, which many pairs share, by their number in ``texts``."""
    return {name: texts.setdefault(value, len(texts)) if name in _CODES else value for name, value in row.items()}


if __name__ == "__main__":
    PAIRS.parent.mkdir(exist_ok=True)
    recorded = json.dumps(record(), indent=0, ensure_ascii=True)
    PAIRS.write_bytes(lzma.compress(recorded.encode("ascii")))
