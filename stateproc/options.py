"""How a snapshot is to be read: the settings that travel with every split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.errors import InvalidOption
from stateproc.keygroups.key_types import KeyTypes
from stateproc.serializers import LayoutContext

TEMPORAL = ("micros", "exact")
SPLIT_BYTES = 256 << 20


@dataclass(frozen=True)
class ReadOptions:
    """Settings of a snapshot, picklable.

    temporal: 'micros' or 'exact', see docs/types.md. row_kind: keep RowKinds. classes: user class descriptions.
    plugins: modules to import before reading, which register parsers. kryo: 2 or 5, by the release that wrote it.
    verify: check the checksums of RocksDB's blocks. key_types: of changelogs that do not hold them, see key_types.py.
    """

    temporal: str = "micros"
    row_kind: bool = False
    classes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    plugins: tuple[str, ...] = ()
    kryo: int = 2
    verify: bool = True
    key_types: KeyTypes = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.temporal not in TEMPORAL:
            raise InvalidOption(f"temporal={self.temporal!r}", advice=f"one of {', '.join(TEMPORAL)}")

    @property
    def context(self) -> LayoutContext:
        return LayoutContext(
            kryo=self.kryo, classes=self.classes, temporal=self.temporal, row_kind=self.row_kind, tail=True
        )
