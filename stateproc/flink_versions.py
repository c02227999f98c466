"""Flink releases that snapshots are written for, and the differences between their formats."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stateproc.errors import InvalidOption


@dataclass(frozen=True, order=True)
class Release:
    """A minor Flink release, such as 1.20."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def metadata_version(self) -> int:
        """The version of ``_metadata`` this release writes (MetadataV3Serializer … MetadataV7Serializer)."""
        if self >= Release(2, 4):
            return 7
        if self >= Release(2, 1):
            return 6
        if self >= Release(2, 0):
            return 5
        return 4 if self >= Release(1, 16) else 3

    @property
    def operator_header_version(self) -> int:
        """The version of operator state headers: with a compression flag (6) since 1.18."""
        return 6 if self >= Release(1, 18) else 5

    @property
    def row_snapshot_version(self) -> int:
        """The version of RowDataSerializer's snapshot: with the names of fields (4) since 2.4."""
        return 4 if self >= Release(2, 4) else 3

    @property
    def has_handle_ids(self) -> bool:
        """Whether keyed handles carry an id (handle types 11 and 12, since 1.15)."""
        return self >= Release(1, 15)

    @property
    def kryo(self) -> int:
        """The major version of Kryo: 2 in Flink 1, 5 in Flink 2."""
        return 5 if self.major >= 2 else 2

    @property
    def scala_package(self) -> str:
        """The package of snapshot classes of Scala types, with a final dot."""
        line = "table.api" if self.major >= 2 else "api.scala"
        return f"org.apache.flink.{line}.typeutils."

    def reads_tables_of(self, metadata_version: int) -> bool:
        """Whether this release's RocksDB reads the tables of a snapshot with this version of ``_metadata``.

        Flink 2 has RocksDB 8, whose checksums of blocks (XXH3) RocksDB 6 of Flink 1 does not know.
        """
        return self.major >= 2 or metadata_version < Release(2, 0).metadata_version


FIRST, LAST = Release(1, 13), Release(2, 4)
"""The oldest and newest release to write for: canonical savepoints load under every backend since 1.13.

2.4 is not out: what is known of it is from its sources.
"""
DEFAULT = Release(1, 20)


def release(text: str | Release) -> Release:
    """Parse a Flink version.

    Args:
        text: such as "1.20" or "2.3.0"; a Release is returned as it is.

    Raises:
        InvalidOption: the text is no version from 1.13 to 2.4.
    """
    if isinstance(text, Release):
        return text
    match = re.fullmatch(r"\s*(\d+)\.(\d+)(\.\d+)?\s*", text) if isinstance(text, str) else None
    found = Release(int(match[1]), int(match[2])) if match else None
    if found is None or not FIRST <= found <= LAST or (found.major == 1 and found.minor > 20):
        raise InvalidOption(
            f"the Flink version {text!r} cannot be written for",
            advice=f"give a version from {FIRST} to {LAST}, such as '1.20' or '2.3'",
        )
    return found
