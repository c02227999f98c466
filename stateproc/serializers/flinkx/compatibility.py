"""Rules of flink-scala-api's serializers: what their snapshots contain and do not compare."""

from __future__ import annotations

from dataclasses import replace

from stateproc.serializers.core.compatibility import Comparison, Compatibility, composite_answer, rule
from stateproc.serializers.flinkx.case_classes import FlinkxCaseClass
from stateproc.serializers.flinkx.collections import ScalaCollection


@rule(FlinkxCaseClass)
def _resolve_case_class(old: FlinkxCaseClass, new: FlinkxCaseClass, comparison: Comparison) -> Compatibility:
    """The class is compared, not whether it is immutable; values of 1.x (None) may have another layout."""
    if old.immutable is not None and new.immutable is not None:
        old = replace(old, immutable=new.immutable)
    return composite_answer(old, new, comparison)


@rule(ScalaCollection)
def _resolve_collection(old: ScalaCollection, new: ScalaCollection, comparison: Comparison) -> Compatibility:
    """The class of elements is not compared. Flink accepts any elements; others than before are refused here."""
    return composite_answer(replace(old, element_class=new.element_class), new, comparison)
