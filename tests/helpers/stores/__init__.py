"""Object stores, HDFS and a file system that counts requests."""
