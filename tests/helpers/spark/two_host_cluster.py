"""A Spark cluster of two hosts on one machine; Spark speculates a task on another host only.

Master and workers live in the driver's JVM, as those of ``local-cluster`` do (which has one host).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from tests.helpers.quick_java import QUICK_SPARK

DRIVER = "127.0.0.1"
HOSTS = ("127.0.0.2", "127.0.0.3")
_CORES, _MEMORY = 2, 1024


def two_hosts(options: Mapping[str, str], work: str) -> SparkSession:
    """A session with an executor of two cores on each host; ``work``: a directory for their logs."""
    gateway = launch_gateway(SparkConf().setAll(list(QUICK_SPARK.items())))
    jvm: Any = gateway.jvm
    conf = jvm.org.apache.spark.SparkConf()
    conf.set("spark.master.rest.enabled", "false")
    master = jvm.org.apache.spark.deploy.master.Master.startRpcEnvAndEndpoint(DRIVER, 0, 0, conf)
    url = f"spark://{DRIVER}:{master._1().address().port()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = url
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    for number, host in enumerate(HOSTS):
        jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, _CORES, _MEMORY, masters, work, jvm.scala.Some(number), conf, none
        )
    settings = SparkConf().setMaster(url).setAppName("tasks that are speculated")
    settings.setAll([("spark.executor.memory", "512m"), *options.items()])
    context = SparkContext(conf=settings, gateway=gateway)
    return SparkSession(context)
