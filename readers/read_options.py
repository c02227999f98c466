"""Settings for decoding the states of a snapshot; every split carries them to the process that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stateproc.codec.kryo.protobuf.descriptor_sets import DescriptorSet
from stateproc.errors import InvalidOption
from stateproc.keygroups.key_types import KeyTypes
from stateproc.options import ON_ERROR, ON_LOSS, OPAQUE, TEMPORAL
from stateproc.serializers import LayoutContext
from stateproc.serializers.core.base import CaseClassArity


@dataclass(frozen=True)
class ReadOptions:
    """Settings of a snapshot; picklable.

    Attributes:
        temporal: 'micros', 'exact' or 'lossless', see docs/types.md.
        on_loss: 'cut' or 'fail': what becomes of digits and the like that columns cannot hold.
        row_kind: Whether the RowKind of Rows is kept.
        classes: Descriptions of user classes.
        plugins: Modules to import before reading, which register parsers.
        kryo: 2 or 5, by the release that wrote the snapshot.
        verify: Whether the checksums of RocksDB blocks are checked.
        on_error: 'fail' or 'null': whether a selected state that cannot be decoded is an error or null.
        opaque: 'fail' or 'bytes': whether values of unknown types are errors or, where their end is known, their bytes.
        case_class_arity: Whether case classes of flink-scala-api 1.x begin with their number of fields.
        value_types: Types of Python states by their names; of all under an empty name.
        proto: Protobuf messages whose fields are known.
        key_types: Key serializers for changelogs that do not contain them, by operator id.
    """

    temporal: str = "micros"
    on_loss: str = "cut"
    row_kind: bool = False
    classes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    plugins: tuple[str, ...] = ()
    kryo: int = 2
    verify: bool = True
    on_error: str = "fail"
    opaque: str = "fail"
    case_class_arity: CaseClassArity = CaseClassArity.FOUND
    value_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    proto: DescriptorSet | None = None
    key_types: KeyTypes = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        lists = {"temporal": TEMPORAL, "on_loss": ON_LOSS, "on_error": ON_ERROR, "opaque": OPAQUE}
        for name, accepted in lists.items():
            if getattr(self, name) not in accepted:
                raise InvalidOption(f"{name}={getattr(self, name)!r}", advice=f"one of {', '.join(accepted)}")

    @property
    def context(self) -> LayoutContext:
        """The context in which serializers build the layouts of values."""
        return LayoutContext(
            kryo=self.kryo,
            classes=self.classes,
            temporal=self.temporal,
            strict=self.on_loss == "fail",
            row_kind=self.row_kind,
            tail=True,
            opaque=self.opaque == "bytes",
            case_class_arity=self.case_class_arity,
            proto=self.proto,
        )
