"""Import every module that registers snapshot readers. A new module of serializers gets a row in this table."""

# ruff: noqa: F401
import stateproc.serializers.avro.serializer
import stateproc.serializers.flink_ml
import stateproc.serializers.flinkx.case_classes
import stateproc.serializers.flinkx.collections
import stateproc.serializers.flinkx.times
import stateproc.serializers.java.big_numbers
import stateproc.serializers.java.collections
import stateproc.serializers.java.scalars
import stateproc.serializers.java.structs
import stateproc.serializers.java.temporal
import stateproc.serializers.java.user_written
import stateproc.serializers.java.uuids
import stateproc.serializers.kryo.serializer
import stateproc.serializers.pojo.serializer
import stateproc.serializers.runtime.cep
import stateproc.serializers.runtime.jdbc_xa
import stateproc.serializers.runtime.legacy
import stateproc.serializers.runtime.streaming
import stateproc.serializers.runtime.ttl
import stateproc.serializers.scala
import stateproc.serializers.table.collections
import stateproc.serializers.table.serializers
import stateproc.serializers.table.variants
