"""What is known of Kryo values beside their bytes: the version, the job's registrations, the user's descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stateproc.codec.kryo.own_serializers import SerializerChoice, choose_serializer
from stateproc.codec.kryo.types import UserClass


@dataclass(frozen=True)
class KryoSetting:
    """What a Kryo value's bytes do not say.

    version: 2 (Flink 1.x) or 5 (Flink 2.x). registrations: class names in the order of their ids.
    serializers: class → Kryo serializer class it is registered with, for those that have one of their own.
    classes: the user's descriptions.
    search_forms: classes that are not described as maps or collections are tried as such, too, to find out why
    descriptions do not fit.
    defaults: (class or interface, Kryo serializer class) of the job's default serializers, in the order of addition.
    """

    version: int
    registrations: tuple[str, ...] = ()
    serializers: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, UserClass] = field(default_factory=dict)
    defaults: tuple[tuple[str, str], ...] = ()
    search_forms: bool = False
    _choices: dict[str, SerializerChoice] = field(default_factory=dict, init=False, repr=False, compare=False)

    def serializer_of(self, name: str) -> SerializerChoice:
        """Return the serializers that Kryo may have used for the class ``name`` (as Class.getName() returns it)."""
        found = self._choices.get(name)
        if found is None:
            found = choose_serializer(name, self.version, self.serializers, self.defaults, self.classes)
            self._choices[name] = found
        return found
