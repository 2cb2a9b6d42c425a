"""What runs: each job reads the log of commits, writes files where nobody else does, and ends in one commit.

    ingest     the streaming query, over   once (each micro-batch exactly once) and   batch (from messages to all tables)
    seal       closing a period            by pyarrow
    compact    fewer files, same rows      by pyarrow
    backfill   days made again from bronze, the difference first
    files      data frames and Arrow tables into files, and back

What a column means is `tables/`; which files count is `warehouse/`; the commands are `router usage`.
"""
