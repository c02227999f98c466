"""A checkpoint root in which the checkpoints of a fixture's chain appear and disappear one by one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stateproc.feed.commits import FeedCommit, commits
from tests.helpers.paths import FIXTURES


@dataclass
class GrowingRoot:
    """A directory with the jobs of a chain.

    Attributes:
        folder: The directory.
        chain: The fixture's name.
    """

    folder: Path
    chain: str = "1.20/chain-rescaled"
    source: tuple[FeedCommit, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.origin = FIXTURES / self.chain / "snapshot"
        self.source = commits(self.origin)
        for job in sorted({Path(commit.path).parent for commit in self.source}):
            self._copy(job, self.job(job), ignore=shutil.ignore_patterns("chk-*", "savepoint-*"))

    @property
    def path(self) -> str:
        """The directory as text."""
        return str(self.folder)

    @property
    def versions(self) -> list[int]:
        """The ids of all checkpoints of the chain."""
        return [commit.version for commit in self.source]

    @property
    def jobs(self) -> list[str]:
        """The directories of the jobs, in the order in which they ran."""
        return [str(self.job(job)) for job in dict.fromkeys(Path(commit.path).parent for commit in self.source)]

    def job(self, path: Path) -> Path:
        """Return where the directory of a job is here."""
        return self.folder / path.relative_to(self.origin)

    def checkpoint(self, version: int) -> Path:
        """Return the directory of a checkpoint."""
        path = Path(next(commit.path for commit in self.source if commit.version == version))
        return self.job(path.parent) / path.name

    def add(self, *versions: int) -> None:
        """Have checkpoints completed: state files first, then ``_metadata``."""
        for version in versions:
            self.begin(version)
            self.complete(version)

    def begin(self, version: int) -> None:
        """Write the state files of a checkpoint."""
        self._copy(self._origin(version), self.checkpoint(version), ignore=shutil.ignore_patterns("_metadata"))

    def complete(self, version: int, size: int | None = None) -> None:
        """Write the ``_metadata`` of a checkpoint, or its first bytes."""
        data = (self._origin(version) / "_metadata").read_bytes()
        (self.checkpoint(version) / "_metadata").write_bytes(data[:size])

    def delete(self, versions: Iterable[int]) -> None:
        """Delete checkpoints as Flink does."""
        for version in versions:
            shutil.rmtree(self.checkpoint(version))

    def _origin(self, version: int) -> Path:
        return Path(next(commit.path for commit in self.source if commit.version == version))

    def _copy(self, source: Path, target: Path, ignore: object) -> None:
        shutil.copytree(source, target, copy_function=os.link, ignore=ignore, dirs_exist_ok=True)  # type: ignore[arg-type]
