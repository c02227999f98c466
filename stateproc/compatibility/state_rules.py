"""Decide what becomes of one state: the answers about its serializers, and what the backend does with them.

Source: RocksDBKeyedStateBackend.tryRegisterKvStateInformation, HeapKeyedStateBackend, DefaultOperatorStateBackend,
RegisteredKeyValueStateBackendMetaInfo, AbstractStateBackend's restore operations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

from stateproc.compatibility.declared_job import BROADCAST, MAP_KEY, NAMESPACE, TIMERS, VALUE, DeclaredState
from stateproc.compatibility.verdicts import StateCheck, Verdict
from stateproc.serializers import Serializer
from stateproc.serializers.avro.serializer import Avro
from stateproc.serializers.compatibility import Answer, Comparison, Compatibility, Effect, Note, resolve, resolve_stored
from stateproc.serializers.flinkx.scala_api import has_scala_api
from stateproc.serializers.java.collections import ListOf, MapOf
from stateproc.serializers.java.scalars import Scalar
from stateproc.serializers.pojo.compatibility import has_collection

_MIGRATION = "org.apache.flink.util.StateMigrationException: "
_KINDS = "java.lang.IllegalStateException: Incompatible key/value state types. Was [{0}], registered with [{1}]."
_VALUE = _MIGRATION + "The new state serializer ({1}) must not be incompatible with the old state serializer ({0})."
_NAMESPACE = (
    _MIGRATION + "The new namespace serializer ({1}) must be compatible with the old namespace serializer ({0})."
)
_TIMERS = _MIGRATION + "The new priority queue serializer must not be incompatible."
_LIST = _MIGRATION + "The new state typeSerializer for operator state must not be incompatible."
_BROADCAST = _MIGRATION + "The new {0} typeSerializer for broadcast state must not be incompatible."
_MAP_KEY = (
    _MIGRATION
    + "The new serializer for a MapState requires state migration in order for the job to proceed, since the "
    "key schema has changed. However, migration for MapState currently only allows value schema evolutions."
)
_KEY = _MIGRATION + "The new key serializer ({1}) must be compatible with the previous key serializer ({0})."
_TRANSFORM = (
    "give it the job's type: SavepointWriter.transform_state(…, value_type=…), see docs/howto/not-compatible.md"
)
_KIND = "stateproc evolve-type --kind {0} --to TYPE makes it one, see docs/commands/evolve-type.md"
_ANEW = "write it anew from rows (SavepointWriter.with_operator), see docs/howto/not-compatible.md"
_KEYS = (
    "stateproc evolve-type --key --to TYPE, which moves entries to the key groups of their new keys, see "
    "docs/commands/evolve-type.md"
)
_KRYO = (
    "write its values with the other Kryo: describe your classes (--classes), then SavepointWriter.transform_state and "
    "with_flink_version('{0}'), see docs/howto/not-compatible.md"
)
_UPGRADE = (
    "stateproc upgrade --flink-version {0}, which converts its values and says which classes need a description "
    "(--classes), see docs/howto/from-1-to-2.md"
)
_SCALA = (
    "stateproc upgrade --flink-version {0} --scala flink-scala-api if the job has flink-scala-api in Flink 2, see "
    "docs/howto/from-1-to-2.md"
)
_WITH_ARGUMENTS = (
    "a job that declares the arguments of such a List, Set or Map (TypeHint, the result of a function) has another "
    "serializer in Flink 2, which refuses the state: see docs/howto/from-1-to-2.md"
)
_UNKNOWN_KEYS = (
    "its type is not known, because nothing of this changelog is materialized and the log does not contain it; {0}"
)
_NAME_KEYS = "name their type (--key-type, as in docs/naming-types.md) and check again"
_DESCRIBE = "describe the class (--classes; `stateproc classes --skeleton` prints what to fill in) and check again"


@dataclass(frozen=True)
class Finding:
    """What the answers about a state's serializers add up to; ``fix`` where that is not for the state to say."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    exception: str | None = None
    is_kryo: bool = False
    is_undecided: bool = False
    stops_operator: bool = False
    fix: str | None = None


def finding_of(found: Compatibility, refused: str) -> Finding:
    """Return what an answer means for a state; ``refused`` is what Flink throws if it is incompatible."""
    changes = tuple(map(str, found.of(Effect.CHANGE)))
    losses = tuple(map(str, found.of(Effect.LOSS)))
    thrown = next((note for note in found.notes if note.exception), None)
    if found.answer >= Answer.UNRESTORABLE:
        return Finding(Verdict.REFUSED, changes, exception=thrown.exception if thrown else None, stops_operator=True)
    if found.answer is Answer.INCOMPATIBLE:
        return Finding(Verdict.REFUSED, changes, exception=refused)
    throws = found.of(Effect.THROWS)
    if throws:
        return Finding(Verdict.REFUSED, tuple(map(str, throws)), exception=throws[0].exception)
    misread, undecided = found.of(Effect.MISREAD), found.of(Effect.UNDECIDED)
    if misread or undecided:
        first = next((note.exception for note in misread if note.exception), None)
        reasons = tuple(map(str, misread or undecided))
        return Finding(Verdict.MISREAD, reasons, losses, first, True, not misread)
    if found.answer is Answer.AFTER_MIGRATION:
        return Finding(Verdict.AFTER_MIGRATION, changes, losses)
    return Finding(Verdict.AS_IS, changes)


def check_state(
    old: Sequence[DeclaredState], new: DeclaredState, comparison: Comparison, *, heap: bool
) -> tuple[StateCheck, Finding]:
    """Return the verdict on a state that both declare.

    Args:
        old: The state as the files of the snapshot declare it.
        new: The state as the job declares it.
        comparison: What wrote and what restores it.
        heap: Whether the heap backend restores it, which says so in what it throws.
    """
    findings = [_check(one, new, comparison, heap) for one in old]
    worst = max(findings, key=lambda found: list(Verdict).index(found.verdict))
    first = old[0]
    check = StateCheck(
        first.name,
        first.kind,
        "keyed" if first.is_keyed else first.distribution,
        worst.verdict,
        worst.reasons,
        worst.losses,
        worst.exception,
        _fix(worst, new, comparison),
    )
    return check, worst


def _check(old: DeclaredState, new: DeclaredState, comparison: Comparison, heap: bool) -> Finding:
    if old.distribution != new.distribution:
        text = f"{old.distribution} state → {new.distribution} state"
        return Finding(Verdict.REFUSED, (text,), exception=_kinds(old.distribution, new.distribution))
    if old.kind != new.kind:
        text = f"{old.kind} state → {new.kind} state"
        fix = _KIND.format(new.kind) if old.is_keyed else None
        return Finding(Verdict.REFUSED, (text,), exception=_kinds(old.kind, new.kind), fix=fix)
    findings = [_of_role(role, old, new, comparison, heap) for role in old.serializers if role in new.serializers]
    worst = max(findings, key=lambda found: list(Verdict).index(found.verdict), default=Finding(Verdict.AS_IS))
    if worst.verdict is Verdict.AS_IS and VALUE in old.serializers and VALUE not in new.serializers:
        worst = replace(worst, reasons=(*worst.reasons, "the job's type is not given, and so not compared"))
    if comparison.changes_kryo and comparison.release.kryo == 5 and any(map(has_collection, old.serializers.values())):
        worst = replace(worst, reasons=(*worst.reasons, _WITH_ARGUMENTS))
    losses = tuple(dict.fromkeys(loss for found in findings for loss in found.losses))
    return replace(worst, losses=losses) if worst.verdict is not Verdict.REFUSED else worst


def _kinds(old: str, new: str) -> str:
    return _KINDS.format(old.upper(), new.upper())


def _of_role(role: str, old: DeclaredState, new: DeclaredState, comparison: Comparison, heap: bool) -> Finding:
    one, other = old.serializers[role], new.serializers[role]
    if not old.is_keyed:
        inner = comparison if old.distribution != BROADCAST else comparison.inner
        refused = _LIST if old.distribution != BROADCAST else _BROADCAST.format(role)
        return _decoded_first(finding_of(resolve(one, other, inner), refused), one, inner)
    if old.distribution == TIMERS:
        refused = _TIMERS.replace("The new", "For heap backends, the new") if heap else _TIMERS
        return _as_is_only(resolve(one, other, comparison.inner), refused)
    if role == NAMESPACE:
        return _as_is_only(resolve(one, other, comparison.inner), _NAMESPACE.format(_named(one), _named(other)))
    if role == MAP_KEY:
        return _as_is_only(resolve(one, other, comparison.inner), _MAP_KEY)
    refused = _VALUE.format(_named(one), _named(other))
    if heap:
        refused = refused.replace("The new", "For heap backends, the new")
    found = finding_of(resolve_stored(one, other, comparison), refused)
    keys = _keys_of_map(old, one, other, comparison, heap)
    return keys if keys is not None and found.verdict is not Verdict.REFUSED else found


def _keys_of_map(
    state: DeclaredState, old: Serializer, new: Serializer, comparison: Comparison, heap: bool
) -> Finding | None:
    """RocksDB has keys of maps in its own keys, which a migration does not rewrite."""
    if heap or state.kind != "map" or not isinstance(old, MapOf) or not isinstance(new, MapOf):
        return None
    found = resolve(old.key, new.key, comparison.inner)
    return _as_is_only(found, _MAP_KEY) if found.answer is Answer.AFTER_MIGRATION else None


def _decoded_first(found: Finding, old: Serializer, comparison: Comparison) -> Finding:
    """Operator state is decoded with the old serializer before it is compared, so that Kryo may throw instead."""
    if found.verdict is not Verdict.REFUSED or found.stops_operator or not comparison.changes_kryo:
        return found
    read = resolve(old, old, comparison)
    if not read.of(Effect.MISREAD):
        return found
    text = "values are decoded before serializers are compared, so that Kryo may throw something else first"
    return replace(found, reasons=(*found.reasons, text))


def _as_is_only(found: Compatibility, refused: str) -> Finding:
    """Return what an answer means where Flink does not migrate."""
    if found.answer is Answer.AFTER_MIGRATION:
        found = Compatibility(Answer.INCOMPATIBLE, tuple(_changed(note) for note in found.notes))
    return finding_of(found, refused)


def _changed(note: Note) -> Note:
    return replace(note, effect=Effect.CHANGE) if note.effect is Effect.LOSS else note


def check_keys(old: Sequence[Serializer], new: Serializer, comparison: Comparison) -> Finding:
    """Return what becomes of an operator's keys, which have to be as they were."""
    findings = [_as_is_only(resolve(key, new, comparison.inner), _KEY.format(_named(key), _named(new))) for key in old]
    found = max(findings, key=lambda found: list(Verdict).index(found.verdict))
    if found.verdict is Verdict.REFUSED and comparison.release.major > 1 and any(map(has_scala_api, old)):
        return replace(found, fix=_SCALA.format(comparison.release))
    return found


def check_unknown_keys(keys: Sequence[Serializer], comparison: Comparison) -> Finding:
    """Return what becomes of keys whose type nothing says: Flink reads them with the job's serializer, unchecked.

    ``keys``: the job's serializers of them; empty where nothing says these either.
    """
    if comparison.changes_kryo and not any(map(_is_read_alike, keys, repeat(comparison))):
        text = f"keys of Kryo Flink {comparison.release} misreads"
        return Finding(Verdict.MISREAD, (_UNKNOWN_KEYS.format(text),), fix=_NAME_KEYS)
    return Finding(Verdict.AS_IS, (_UNKNOWN_KEYS.format("Flink does not compare it"),), fix=_NAME_KEYS)


def _is_read_alike(key: Serializer, comparison: Comparison) -> bool:
    """Whether both Kryos write keys of this type alike."""
    found = resolve(key, key, comparison.inner)
    return found.answer is Answer.AS_IS and not found.of(Effect.MISREAD) and not found.of(Effect.UNDECIDED)


def fix_of_keys(finding: Finding) -> str | None:
    """Return what to do about keys that are not as they were."""
    if finding.fix is not None or finding.verdict is Verdict.AS_IS:
        return finding.fix
    if finding.is_undecided:
        return _DESCRIBE
    return _ANEW if finding.is_kryo else _KEYS


def _fix(found: Finding, new: DeclaredState, comparison: Comparison) -> str | None:
    if found.fix is not None:
        return found.fix
    if found.is_undecided:
        return _DESCRIBE
    if found.verdict in (Verdict.MISREAD, Verdict.REFUSED) or found.losses:
        if comparison.release.major > 1 and any(map(has_scala_api, new.serializers.values())):
            return _SCALA.format(comparison.release)
        if found.is_kryo or (found.stops_operator and comparison.changes_kryo):
            return (_UPGRADE if comparison.release.kryo == 5 else _KRYO).format(comparison.release)
        return _TRANSFORM if new.distribution == "keyed" else _ANEW
    return None


def _named(serializer: Serializer) -> str:
    """How Flink's class is named in messages, where its text begins with that."""
    if isinstance(serializer, Avro):
        return f"AvroSerializer ({serializer.class_name})"
    if isinstance(serializer, Scalar):
        return f"{serializer.name}Serializer"
    if isinstance(serializer, ListOf):
        return "GenericArraySerializer" if serializer.kind == "Array" else f"{serializer.kind}Serializer"
    parts = re.split(r"[.$]", getattr(serializer, "snapshot_class", ""))
    known = next((part for part in parts if part.endswith("Serializer")), None)
    own = type(serializer).__name__
    return known or _CLASSES.get(own, own.removesuffix("Serializer")) + "Serializer"


_CLASSES = {
    "TupleOf": "Tuple",
    "RowOf": "Row",
    "EitherOf": "Either",
    "NullableOf": "Nullable",
    "EnumOf": "Enum",
    "MapOf": "Map",
    "CaseClass": "ScalaCaseClass",
    "OptionOf": "Option",
    "TryOf": "Try",
}
"""The names of Flink's classes, where ours differ."""
