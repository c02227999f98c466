"""Imports every family of serializers, which registers them."""

from stateproc.serializers import (  # noqa: F401
    avro,
    big,
    cep,
    collections,
    generic,
    java_objects,
    kryo,
    legacy,
    pojo,
    runtime,
    scala,
    scalars,
    structs,
    table,
    table_collections,
    temporal,
    variants,
)
