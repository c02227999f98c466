"""What is known of Kryo values beside their bytes: the version, the job's registrations, the user's descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stateproc.codec.kryo.own_serializers import SerializerChoice, choose_serializer
from stateproc.codec.kryo.protobuf.message_types import MessageType
from stateproc.codec.kryo.types import UserClass


@dataclass(frozen=True)
class KryoSetting:
    """What a Kryo value's bytes do not say.

    version: 2 (Flink 1.x) or 5 (Flink 2.x). registrations: class names in the order of their ids.
    serializers: class → Kryo serializer class it is registered with, for those that have one of their own.
    classes: the user's descriptions.
    messages: Protobuf messages whose fields are known, by the names of their Java classes; message_set names their set.
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
    messages: Mapping[str, MessageType] = field(default_factory=dict)
    message_set: str = ""
    _choices: dict[str, SerializerChoice] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        return hash((self.version, self.registrations, tuple(self.serializers), tuple(self.classes), self.defaults))

    def serializer_of(self, name: str) -> SerializerChoice:
        """Return the serializers that Kryo may have used for the class ``name`` (as Class.getName() returns it)."""
        found = self._choices.get(name)
        if found is None:
            found = choose_serializer(name, self.version, self.serializers, self.defaults, self.classes, self.messages)
            self._choices[name] = found
        return found


# Assumptions about a Kryo value that neither its bytes nor the snapshot confirm, tried until the bytes fit.

RECORD_GUESS, SORTED_GUESS, FORM_GUESS = "record ", "sorted ", "form of "


class Guesses:
    """The assumptions of one attempt to read a value; :meth:`turn` goes on to the next combination."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, int]] = {}
        self._serializers: dict[str, str] = {}

    def final(self, class_name: str) -> bool:
        """Whether a class is final; first the guess that it is not."""
        return self.choose(f"final {class_name}", 2) == 1

    def without_synthetic(self, class_name: str) -> bool:
        """Whether synthetic fields of a class are not written; first the guess that they are."""
        return self.choose(f"synthetic fields of {class_name}", 2) == 1

    def record(self, class_name: str) -> bool:
        """Whether a class is a record; first the guess that it is not."""
        return self.choose(f"{RECORD_GUESS}{class_name}", 2) == 1

    def sorted(self, class_name: str) -> bool:
        """Whether a Map or Collection is a TreeMap or TreeSet; first the guess that it is not."""
        return self.choose(f"{SORTED_GUESS}{class_name}", 2) == 1

    def form(self, class_name: str, n: int) -> int:
        """Choose among the forms of a class; the first is what its description says."""
        return self.choose(f"{FORM_GUESS}{class_name}", n)

    @property
    def made(self) -> dict[str, int]:
        """The guesses of this attempt."""
        return {what: chosen for what, (chosen, _) in self._made.items()}

    def serializer(self, class_name: str, options: tuple[str, ...]) -> int:
        """Choose one of the serializers that may have written a class, the same for all its objects in a value."""
        if len(options) == 1:
            return 0
        chosen = self.choose(f"serializer of {class_name}", len(options))
        self._serializers[class_name] = options[chosen]
        return chosen

    @property
    def serializers(self) -> dict[str, str]:
        """Class → serializer, as far as one was chosen among several."""
        return dict(self._serializers)

    def choose(self, what: str, n: int) -> int:
        """Choose one of ``n`` alternatives, the same wherever it is asked in a value; first the one with number 0."""
        return self._made.setdefault(what, (0, n))[0]

    def turn(self) -> bool:
        """Turn to the next combination, the last guess made first; False if all were tried."""
        self._serializers.clear()
        while self._made:
            what, (chosen, n) = self._made.popitem()
            if chosen + 1 < n:
                self._made[what] = (chosen + 1, n)
                return True
        return False
