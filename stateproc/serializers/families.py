"""Imports every family of serializers, which registers them."""

from stateproc.serializers import (  # noqa: F401
    avro,
    big,
    cep,
    collections,
    generic,
    kryo,
    java_objects,
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
