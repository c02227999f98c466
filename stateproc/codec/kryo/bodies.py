"""The readers of all classes whose Kryo serializers are known."""

from __future__ import annotations

from stateproc.codec.kryo.avro import AVRO_BODIES
from stateproc.codec.kryo.collections import COLLECTION_BODIES, array, like_body
from stateproc.codec.kryo.library_serializers import CHECKED_SERIALIZERS, SERIALIZER_BODIES
from stateproc.codec.kryo.scala import CHILL_BODIES, FIELD_BODIES, NAMED_BODIES, singleton
from stateproc.codec.kryo.scalars import SCALAR_BODIES
from stateproc.codec.kryo.times import TIME_BODIES
from stateproc.codec.kryo.walker import BodyReaders

BODIES = BodyReaders(
    SCALAR_BODIES | TIME_BODIES | COLLECTION_BODIES | AVRO_BODIES,
    array,
    like_body,
    FIELD_BODIES,
    CHILL_BODIES,
    NAMED_BODIES,
    singleton,
    SERIALIZER_BODIES,
    CHECKED_SERIALIZERS,
)
