"""The usage pipeline on Spark: the usage stream becomes tables that a bill can be written from.

    source/      the `jetstream` data source for PySpark: a stream's messages as rows, any range again whenever it is asked for
    tables/      what the columns mean         warehouse/   which files count: the log of commits
    files        Parquet files, read          identities/  which events are known: an index of silver
    jobs/        ingest, seal, compact, backfill
    report/      gold as lines and as a page   reconcile/   does it add up?      generate/   a load, and the truth about it

Nobody imports this room but its commands: it needs the extra `spark`, and where Spark works, a Java runtime (`session`).
"""
