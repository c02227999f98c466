"""Refuse to copy values of Kryo between Flink 1.x (Kryo 2) and 2.x (Kryo 5), which encode them differently.

`kryo_conversion` converts them from 1.x to 2.x; the other way they are refused. KryoSerializerSnapshot does not say who
wrote the values, so that Flink 2.x finds those of 1.x compatible; but the serializer that it makes of such a snapshot
misses classes that 1.x registers, and no state of the operator is restored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from stateproc.errors import UnsupportedSnapshot, Where
from stateproc.flink_versions import Release
from stateproc.metadata.backend import KeyedHeader, StateMetaInfo
from stateproc.model.operator import Operator
from stateproc.serializers import LayoutContext, Serializer
from stateproc.serializers.core.registry import SCALA_PACKAGES
from stateproc.serializers.kryo.serializer import Kryo
from stateproc.verification.class_mentions import all_serializers
from stateproc.writers.bootstrap.state_registration import RegisteredState
from stateproc.writers.rewrite.merged_header import timers_in_raw_state

_KRYO = b"org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"
_SCALA = SCALA_PACKAGES[0].encode()
_LINES = {2: "1.x", 5: "2.x"}


def check_kryo(operator: Operator, release: Release, gone: Collection[str]) -> None:
    """Raise UnsupportedSnapshot if states of an operator have values of another Kryo than the release's.

    gone: keyed states that are left out or come from rows. Headers that cannot be read are not looked at.
    """
    if operator.options.kryo != release.kryo:
        for state in _named_in(operator, _KRYO, gone):
            raise _refused(operator, state, release)


def has_kryo_keyed(operator: Operator) -> bool:
    """Whether keyed state has values of Kryo, timers in raw keyed state too, as far as headers can be read."""
    return any(_KRYO in snapshot for snapshot in _keyed_snapshots(operator))


def has_scala_keyed(operator: Operator) -> bool:
    """Whether keyed state has types of Flink's Scala API; as of `has_kryo_keyed`."""
    return any(_SCALA in snapshot for snapshot in _keyed_snapshots(operator))


def _keyed_snapshots(operator: Operator) -> Iterator[bytes]:
    for header in _headers(operator):
        yield header.key_snapshot
        for info in header.states:
            yield from info.snapshots.values()
    for service in (service for timers in timers_in_raw_state(operator) for service in timers.services):
        yield service.key_snapshot
        yield service.namespace_snapshot


def check_scala(operator: Operator, release: Release, gone: Collection[str]) -> None:
    """Raise UnsupportedSnapshot if an operator has types of Flink's Scala API, which Flink 2 does not have.

    gone: as of `check_kryo`. Keys stay in the header, whichever states are gone.
    """
    if release.major < 2:
        return
    services = (service for timers in timers_in_raw_state(operator) for service in timers.services)
    if any(_SCALA in service.key_snapshot or _SCALA in service.namespace_snapshot for service in services):
        raise _without_scala(operator, None, release)
    for state in _named_in(operator, _SCALA, gone, keys_stay=True):
        raise _without_scala(operator, state, release)


_OTHERWISE = (
    "give them the type that the job has instead, a POJO or tuple (stateproc evolve-type --to), in a write of its own "
    "before; or leave them out (drop_state)",
    "write the operator anew from rows (with_operator), or leave it out (remove_operator)",
)
"""What to do about a state, and about keys."""


def names_scala(snapshot: bytes) -> bool:
    """Whether a serializer's snapshot names a class of Flink's Scala API."""
    return _SCALA in snapshot


def _without_scala(operator: Operator, state: str | None, release: Release) -> UnsupportedSnapshot:
    return UnsupportedSnapshot(
        f"{_what(state)} of Flink's Scala API, which Flink {release} does not have",
        where=Where(operator=operator.display, state=state),
        advice="if the job has flink-scala-api instead, convert them: stateproc upgrade --scala flink-scala-api "
        f"(with_scala_types); or {_OTHERWISE[state is None]}",
    )


def check_kryo_rows(operator: Operator, release: Release, key: Serializer, rows: Sequence[RegisteredState]) -> None:
    """Raise UnsupportedSnapshot if rows of another Kryo's snapshot have values of Kryo that are but their bytes.

    Keys keep their snapshot, and so the classes that the other Kryo registers.
    """
    kryo = operator.options.kryo
    if kryo == release.kryo:
        return
    if any(isinstance(part, Kryo) for part in all_serializers(key)):
        raise _refused(operator, None, release)
    context = LayoutContext(kryo=kryo, classes=operator.options.context.classes)
    for state in rows:
        for serializer in (state.value, state.user_key, state.namespace):
            for part in () if serializer is None else all_serializers(serializer):
                # Types that the user specifies have no settings of a snapshot; the user gives their bytes as well.
                if isinstance(part, Kryo) and part.settings and not part.is_known(context):
                    raise UnsupportedSnapshot(
                        f"values of {part.class_name} are but the bytes of Kryo {kryo} (Flink {_LINES[kryo]}), which "
                        f"Kryo {release.kryo} of Flink {release} takes for others",
                        where=Where(operator=operator.display, state=state.name),
                        advice="describe the class when the snapshot is opened: from_existing_savepoint(spark, path, "
                        '{"classes": …}), so that its values are rows of fields; or leave the state out (drop_state)',
                    )


def _headers(operator: Operator) -> Iterator[KeyedHeader]:
    """Yield the headers of keyed state that can be read."""
    unreadable = {id(file) for file, _ in operator.unreadable_keyed_files}
    for file in operator.keyed_files:
        if id(file) not in unreadable and file.header is not None:
            yield file.header


def _named_in(
    operator: Operator, name: bytes, gone: Collection[str], *, keys_stay: bool = False
) -> Iterator[str | None]:
    """Yield the states that are not gone and whose snapshots have the name of a class; None for keys of any of them.

    ``keys_stay``: keys are looked at without any state, too.
    """
    for header in _headers(operator):
        kept = [info for info in header.states if info.name not in gone]
        if name in header.key_snapshot and (kept or keys_stay):
            yield None
        yield from _states_with(name, kept)
    for file in () if operator.unreadable_operator_files else operator.operator_files:
        yield from _states_with(name, (*file.header.states, *file.header.broadcast))


def _states_with(name: bytes, infos: Iterable[StateMetaInfo]) -> Iterator[str]:
    yield from (info.name for info in infos if any(name in snapshot for snapshot in info.snapshots.values()))


def _what(state: str | None) -> str:
    return "keys" if state is None else "values"


def _refused(operator: Operator, state: str | None, release: Release) -> UnsupportedSnapshot:
    kryo = operator.options.kryo
    return UnsupportedSnapshot(
        f"{_what(state)} of Kryo {kryo} (Flink {_LINES[kryo]}) cannot be carried over to Flink {release}, whose Kryo "
        f"{release.kryo} takes their bytes for others",
        where=Where(operator=operator.display, state=state),
        advice="write it anew from rows (transform_state, with the class described if it is one of yours; for keys "
        "with_operator), or leave it out (drop_state, remove_operator)",
    )
