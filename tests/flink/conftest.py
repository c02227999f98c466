"""A Spark session, for what is written with Spark and restored by Flink."""

from spark_session import spark

__all__ = ["spark"]
