"""Read and write the types of flink-scala-api (package org.apache.flinkx.api.serializer)."""
