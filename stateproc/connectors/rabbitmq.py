"""RabbitMQ's RMQSource (MessageAcknowledgingSourceBase): messages to acknowledge when a checkpoint completes.

Union or list state `message-acknowledging-source-state`: SerializedCheckpointData[] by Java serialization, whose
`serializedData` is the message ids as Flink strings.
"""

from __future__ import annotations

import base64
from typing import Any

from stateproc.errors import CorruptSnapshot
from stateproc.wire.cursor import Cursor

RABBITMQ_STATE = "message-acknowledging-source-state"
_CLASS = "org.apache.flink.streaming.api.functions.source.SerializedCheckpointData"


def unacknowledged(plain: Any) -> list[dict[str, Any]]:
    """Return checkpoint_id and ids of an element as plain values (see `to_plain`); ids of other types are left out."""
    found = []
    for item in plain if isinstance(plain, list) else ():
        if not isinstance(item, dict) or item.get("class") != _CLASS:
            continue
        fields = item["fields"]
        cursor = Cursor(base64.b64decode(fields["serializedData"]))
        try:
            ids = [str(cursor.fstr()) for _ in range(min(fields["numIds"], cursor.remaining))]
        except CorruptSnapshot:
            ids = []
        found.append({"checkpoint_id": fields["checkpointId"], "ids": ids})
    return found
