"""A store as S3 is one, in this process; other processes reach it over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUCKET = "flink"


@dataclass(frozen=True)
class Store:
    """A bucket, and how s3fs reaches it."""

    endpoint: str
    client: Any

    @property
    def options(self) -> dict[str, Any]:
        """Storage options for fsspec."""
        return {"endpoint_url": self.endpoint, "key": "id", "secret": "secret"}

    @property
    def environment(self) -> dict[str, str]:
        """What Amazon's own tools read, in place of options."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "id",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def upload(self, directory: Path, prefix: str) -> str:
        """Copy a directory's files to under ``prefix``; its URI."""
        for path in directory.rglob("*"):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(directory)}"
                self.client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def names(self, prefix: str) -> list[str]:
        """Of the objects under ``prefix``, sorted."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
        return sorted(item["Key"].removeprefix(f"{prefix}/") for page in pages for item in page.get("Contents", []))

    def unfinished_uploads(self) -> list[str]:
        return [item["Key"] for item in self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]


@contextmanager
def object_store() -> Iterator[Store]:
    import logging

    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        endpoint = f"http://127.0.0.1:{port}"
        client = boto3.client(
            "s3", endpoint_url=endpoint, aws_access_key_id="id", aws_secret_access_key="secret", region_name="us-east-1"
        )
        client.create_bucket(Bucket=BUCKET)
        yield Store(endpoint, client)
    finally:
        server.stop()
