"""The usage pipeline on Spark: it turns the usage stream into tables from which a bill can be
written.

    source/      the `jetstream` data source for PySpark: messages of a stream as rows; any range
                 can be read again
    tables/      what the columns mean         warehouse/   which files count: the log of commits
    files        reads Parquet files           identities/  which events are known: an index of
                                               silver
    jobs/        ingest, seal, compact, backfill
    report/      gold as lines and as a page   reconcile/   compares stream, tables and results
    generate/    a load, and the exact sums that it must give

Only the commands `router usage …` import this room: it needs the extra `spark`, and where Spark
runs, a Java runtime (`session`).
"""
