"""Writers of one warehouse against each other, many times, on a disk and in a bucket. A harness,
and a short version for `make test-all`.

    python -m tests.lake.races --races 1000 [--s3] --write bench/results/lake_races.md

Writers are processes that commit real batches by the lake's own code; only Spark is missing between
their two steps (`without_jvm`).
"""
