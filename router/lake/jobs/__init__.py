"""The jobs: each reads the log of commits, writes files into a directory of its own, and ends in
one commit.

    ingest     the streaming query, and its sink: each micro-batch is committed exactly once
                 stream_end   asks the stream after each cut; what a batch must search
                 staging      one range, where it is read: bronze, quarantine, typed events;
                              and the same for Spark
                 micro_batch  all staged ranges into all tables:   derive, rejects
    seal       closes a period
    compact    fewer files, same rows
    backfill   makes days again from bronze (reparse, derive), and shows the difference first
    daily_writer   Arrow tables into files, one file a day;   staging_file: typed events between two
                   steps

Spark plans, distributes the ranges and retries. The work on a range is Arrow in Python, in the task
that reads the range.

`tables/` says what a column means, `warehouse/` which files count; the commands are `router usage
…`.
"""
