"""Count the requests that s3fs makes in this process, and their bytes."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import s3fs  # type: ignore[import-untyped]
from fsspec.asyn import sync_wrapper

_ASKING = ("head_object", "list_objects_v2", "head_bucket")


class S3Requests:
    """Requests of this process from now on."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._received = self._sent = 0
        call = s3fs.S3FileSystem._call_s3

        @functools.wraps(call)
        async def counted(filesystem: Any, method: str, *arguments: Any, **more: Any) -> Any:
            self._calls[method] += 1
            answer = await call(filesystem, method, *arguments, **more)
            if method == "get_object":
                self._received += int(answer["ContentLength"])
            self._sent += len(more.get("Body", b""))
            return answer

        # What writes to files uses the synchronous form, which refers to the method before it was replaced.
        s3fs.S3FileSystem._call_s3, s3fs.S3FileSystem.call_s3 = counted, sync_wrapper(counted)

    def figures(self) -> dict[str, float]:
        """Return the numbers of requests that read, that ask for names and sizes, and others; and megabytes."""
        asked = sum(self._calls[name] for name in _ASKING)
        reads = self._calls["get_object"]
        return {
            "GET": reads,
            "HEAD and LIST": asked,
            "other requests": sum(self._calls.values()) - reads - asked,
            "MB received": round(self._received / 1e6, 1),
            "MB sent": round(self._sent / 1e6, 1),
        }
