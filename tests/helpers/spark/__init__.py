"""A Spark session, a cluster of two hosts, and Spark applications whose writes fail."""
