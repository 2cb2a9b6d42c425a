"""The usage pipeline on Spark: the usage stream becomes tables that a bill can be written from.

    source/   the `jetstream` data source for PySpark: a stream's messages as rows, any range again whenever it is asked for

Nobody imports this room but its commands: it needs the extra `spark`, and a Java runtime.
"""
