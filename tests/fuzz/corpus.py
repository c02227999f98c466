"""Inputs that reached more of the readers than those before, found by fuzzing: one archive, a folder per target."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence

from tests.helpers.paths import VECTORS

ARCHIVE = VECTORS / "fuzzing.tar.xz"


def archived() -> dict[str, list[bytes]]:
    """Return the inputs of each target."""
    found: dict[str, list[bytes]] = {}
    if ARCHIVE.is_file():
        with tarfile.open(ARCHIVE) as files:
            for member in files:
                content = files.extractfile(member)
                assert content is not None
                found.setdefault(member.name.partition("/")[0], []).append(content.read())
    return found


def write_archive(inputs: Mapping[str, Sequence[bytes]]) -> None:
    """Write the archive; the same inputs give the same bytes."""
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as files:
        for name, texts in inputs.items():
            for number, text in enumerate(texts):
                member = tarfile.TarInfo(f"{name}/{number:05}")
                member.size = len(text)
                files.addfile(member, io.BytesIO(text))
