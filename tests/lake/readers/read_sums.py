"""Sums of silver and of gold by another tool, in a process of its own: `read_sums.py duckdb|polars|pandas WAREHOUSE`.

Each line on standard input is the number of a cut, or `newest`; each line on standard output says
which cut was read, and the number and the cost of the events in both tables, at the versions that
the cut names. It imports nothing of ours, as docs/how-to/read-the-tables.md says.
"""

import json
import sys

from deltalake import DeltaTable


def read_by_duckdb(path, version, count, cost):
    import duckdb

    rows = DeltaTable(path, version=version).to_pyarrow_dataset()  # noqa: F841 - the SQL names it
    return duckdb.sql(f"select {count}, sum({cost}) from rows").fetchall()[0]


def read_by_polars(path, version, count, cost):
    import polars

    counted = polars.len() if count == "count(*)" else polars.col("count").sum()
    return (
        polars.scan_delta(path, version=version)
        .select(counted.alias("events"), polars.col(cost).sum())
        .collect()
        .row(0)
    )


def read_by_pandas(path, version, count, cost):
    import pandas

    names = [cost] if count == "count(*)" else ["count", cost]
    rows = (
        DeltaTable(path, version=version)
        .to_pyarrow_table(columns=names)
        .to_pandas(types_mapper=pandas.ArrowDtype)
    )
    return len(rows) if count == "count(*)" else rows["count"].sum(), rows[cost].sum()


READERS = {"duckdb": read_by_duckdb, "polars": read_by_polars, "pandas": read_by_pandas}


def read_sums(tool, warehouse, wanted):
    cuts = (
        DeltaTable(f"{warehouse}/cuts")
        .to_pyarrow_table(columns=["cut", "versions"])
        .sort_by("cut")
        .to_pylist()
    )
    cut = next(one for one in reversed(cuts) if wanted in {"newest", str(one["cut"])})
    versions = dict(cut["versions"])
    told = {"cut": cut["cut"]}
    for table, count in (("silver", "count(*)"), ("gold_day", "sum(count)")):
        events, cost = READERS[tool](f"{warehouse}/{table}", versions[table], count, "cost")
        told[table] = [int(events), str(cost)]
    return told


if __name__ == "__main__":
    tool, warehouse = sys.argv[1:]
    for line in sys.stdin:
        print(json.dumps(read_sums(tool, warehouse, line.strip())), flush=True)
