"""A user's own parser, in a module that the option ``plugins`` names: longs, as their own serializer writes them."""

from __future__ import annotations

from stateproc import serializers
from stateproc.serializers import Serializer
from stateproc.wire import Cursor

LONGS = b"org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot"


def read_longs(cursor: Cursor, version: int) -> Serializer:
    """The serializer of longs; its snapshot holds nothing more."""
    return serializers.read_snapshot(len(LONGS).to_bytes(2, "big") + LONGS + version.to_bytes(4, "big"))


serializers.register("com.acme.state.serializers.xxxxxxxxxxxxxxxxxxxxxxx.OurOwnLongsSerializerSnapshot", read_longs)
