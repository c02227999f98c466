"""Make snapshots of a SQL job with any uids: a fixture whose operators get other ids in ``_metadata``."""

from __future__ import annotations

import shutil
from pathlib import Path

from stateproc.keygroups.operator_ids import operator_id
from tests.helpers.paths import FIXTURES

SQL = FIXTURES / "1.20/sql-hashmap-canonical/snapshot"
AGGREGATE, JOIN, RANK = (
    "1c14bc55c716a58f36854f91fa312fc8",
    "71e0c84f8d203b6cc805411b51d307b6",
    "dacc73278ef15f4043deeb3049886395",
)
WINDOW, DEDUPLICATE = "b6608dc14973b78781c54c51565bfa17", "340cbbfa5a8a1573cd9278bd1b6a8cc4"


def renamed(folder: Path, uids: dict[str, str], source: Path = SQL) -> Path:
    """Copy the snapshot ``source`` into ``folder``; its operators with these ids get the ids of these uids."""
    copy = folder / "snapshot"
    shutil.copytree(source, copy)
    metadata = (copy / "_metadata").read_bytes()
    for old, uid in uids.items():
        assert metadata.count(bytes.fromhex(old)) == 1
        metadata = metadata.replace(bytes.fromhex(old), bytes.fromhex(operator_id(uid)))
    (copy / "_metadata").write_bytes(metadata)
    return copy
