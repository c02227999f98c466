"""Imports every family of serializers, which registers them."""

from stateproc.serializers import (  # noqa: F401
    big,
    collections,
    pojo,
    runtime,
    scalars,
    structs,
    temporal,
)
