"""Decide which events of a micro-batch count. Pure: two Arrow tables in, one out; a few integers a
row, whatever the event's size.

    fresh    seq, id_high, id_low, content     the valid events of the batch
    known    the same, of events that count already and whose identity is in the batch
    rejects  seq, first_seq, is_conflict       all that are not the first of their identity

The first is the lowest sequence, for ever: batches follow the stream's order, so a known event is
always earlier.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

ID_COLUMNS = ["id_high", "id_low"]
KEY_COLUMNS = ["seq", *ID_COLUMNS, "content"]
KEY_SCHEMA = pa.schema([(name, pa.int64()) for name in KEY_COLUMNS])


def find_rejects(fresh: pa.Table, known: pa.Table) -> pa.Table:
    """Return the rows of `fresh` that do not count, each with the sequence that counts instead."""
    fresh, known = (rows.select(KEY_COLUMNS).cast(KEY_SCHEMA) for rows in (fresh, known))
    repeated = _find_repeated(fresh, known)
    firsts = _find_firsts(pa.concat_tables([repeated, known]))
    both = repeated.join(firsts, ID_COLUMNS, right_suffix="_first")
    both = both.filter(pc.not_equal(both["seq"], both["first_seq"]))
    is_conflict = pc.not_equal(both["content"], both["first_content"])
    return pa.table(
        {"seq": both["seq"], "first_seq": both["first_seq"], "is_conflict": is_conflict}
    )


def _find_repeated(fresh: pa.Table, known: pa.Table) -> pa.Table:
    """Return the rows whose identity is there more than once; usually few."""
    everything = pa.concat_tables([fresh.select(ID_COLUMNS), known.select(ID_COLUMNS)])
    counted = everything.group_by(ID_COLUMNS).aggregate([([], "count_all")])
    many = counted.filter(pc.greater(counted["count_all"], 1)).select(ID_COLUMNS)
    return fresh.join(many, ID_COLUMNS, join_type="left semi")


def _find_firsts(rows: pa.Table) -> pa.Table:
    least = (
        rows.group_by(ID_COLUMNS)
        .aggregate([("seq", "min")])
        .rename_columns([*ID_COLUMNS, "first_seq"])
    )
    first = least.join(rows.select(["seq", "content"]), "first_seq", "seq")
    return first.rename_columns([*ID_COLUMNS, "first_seq", "first_content"])
