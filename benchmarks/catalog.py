"""Make a root with many incremental checkpoints of empty files, and measure `stateproc ls` with and without --orphans.

    python -m benchmarks.catalog                                      # 1,000 checkpoints of 1,000 shared files
    python -m benchmarks.catalog --checkpoints 100 --new-files 100

Each checkpoint shares all but ``--new-files`` files with the one before it. Each command runs in a process of its own.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import uuid
from collections import deque
from pathlib import Path

from stateproc.metadata.keyed_handles import IncrementalHandle
from stateproc.metadata.snapshot import OperatorEntry, SnapshotMetadata, SubtaskState
from stateproc.metadata.stream_handles import FileHandle
from stateproc.metadata.writer import write_metadata

JOB = "0123456789abcdef0123456789abcdef"
_PARALLELISM = 10
_UNNEEDED = 1000
_PROGRAM = """
import resource, sys
from stateproc.cli import main
status = main(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
print(f"{used.ru_utime + used.ru_stime:.2f} s of CPU, {used.ru_maxrss // 1024} MB", file=sys.stderr)
sys.exit(status)
"""


def make_root(root: Path, checkpoints: int, shared_files: int, new_files: int) -> None:
    """Write checkpoints whose state files are empty, and 1,000 files that none of them needs.

    Args:
        root: The directory of the job's directory.
        checkpoints: Their number.
        shared_files: The shared files that each of them names.
        new_files: How many of these the checkpoint before it does not name.
    """
    job = root / JOB
    (job / "shared").mkdir(parents=True)
    (job / "taskowned").mkdir()
    live: deque[str] = deque()
    for number in range(1, checkpoints + 1):
        for _ in range(new_files if live else shared_files):
            live.append(str(uuid.uuid4()))
            (job / "shared" / live[-1]).touch()
            if len(live) > shared_files:
                live.popleft()
        directory = job / f"chk-{number}"
        directory.mkdir()
        metadata = write_metadata(_metadata(number, directory, [f"{job}/shared/{name}" for name in live]), 4)
        (directory / "_metadata").write_bytes(metadata)
    for _ in range(_UNNEEDED):
        (job / "shared" / str(uuid.uuid4())).touch()


def _metadata(number: int, directory: Path, shared: list[str]) -> SnapshotMetadata:
    def handle(subtask: int) -> IncrementalHandle:
        own = directory / str(uuid.uuid4())
        own.touch()
        return IncrementalHandle(
            type_byte=11,
            checkpoint_id=number,
            backend_id=str(uuid.uuid4()),
            first_key_group=subtask * 12,
            key_group_count=12,
            checkpointed_size=64 << 20,
            meta=FileHandle(f"file:{own}", 1000),
            shared=tuple(
                (f"{at:06}.sst", FileHandle(f"file:{path}", 64 << 20))
                for at, path in enumerate(shared[subtask::_PARALLELISM])
            ),
            private=(),
            handle_id=str(uuid.uuid4()),
        )

    subtasks = tuple(SubtaskState(index, managed_keyed=handle(index)) for index in range(_PARALLELISM))
    operator = OperatorEntry("0a" * 16, _PARALLELISM, 128, subtasks=subtasks)
    return SnapshotMetadata(4, number, (), (operator,), None)


def _run(*arguments: str) -> None:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, "ls", *arguments], capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    cost = done.stderr.strip().splitlines()[-1]
    print(f"ls {' '.join(arguments[1:])}: {seconds:.2f} s, {cost}, {len(done.stdout)} bytes printed")


def main() -> None:
    """Make the root, run the commands, print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", type=int, default=1000)
    parser.add_argument("--shared-files", type=int, default=1000)
    parser.add_argument("--new-files", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        make_root(root, arguments.checkpoints, arguments.shared_files, arguments.new_files)
        for more in ((), ("--json",), ("--orphans", "--min-age", "0s")):
            _run(directory, *more)


if __name__ == "__main__":
    main()
