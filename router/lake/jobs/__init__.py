"""What runs: each job reads the log of commits, writes files where nobody else does, and ends in one commit.

    ingest     the streaming query, over   once   (each micro-batch exactly once)
                 landing    a range where it is read: bronze, quarantine, typed events aside; landing_source: for Spark
                 batch      what landed into all tables:   sift, turned_away
    seal       closing a period
    compact    fewer files, same rows
    backfill   days made again from bronze (retype, sift), the difference first
    days       Arrow tables into files, a file a day;   aside: typed events, in between

Spark plans, deals out the ranges and tries again; what is done with a range is Arrow in Python, in the task that has it.

What a column means is `tables/`; which files count is `warehouse/`; the commands are `router usage`.
"""
