"""Record what Flink 2.3 prints of a job, with its savepoint: `tests/vectors/job-graph.tar.xz`.

python -m tests.helpers.flink.job_graph
"""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.helpers.flink.compilation import JAVA, JOBS, compiled, core_folders
from tests.helpers.paths import VECTORS

ARCHIVE = VECTORS / "job-graph.tar.xz"


def main() -> None:
    classes = compiled("2.3", "fixtures", [*core_folders("2.3"), JOBS / "graph"])
    with tempfile.TemporaryDirectory() as folder:
        command = [*JAVA, "-cp", os.pathsep.join([str(JOBS / "graph"), classes]), "graph.JobGraph", folder]
        savepoint = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
        Path(savepoint).rename(Path(folder) / "savepoint")
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            archive.add(folder, "job-graph")


if __name__ == "__main__":
    main()
