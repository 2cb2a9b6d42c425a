"""Which events of a micro-batch count. Pure: two small Arrow tables in, one out; a few longs a row, whatever the event's size.

    fresh   seq, id_high, id_low, content     the valid events of the batch
    known   the same, of events that count already and have an identity that is in the batch
    dropped seq, first_seq, is_conflict       whatever is not the first of its identity

The first is the lowest sequence, for ever: batches come in the stream's order, so what is known is always earlier.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

ID = ["id_high", "id_low"]
KEY_COLUMNS = ["seq", *ID, "content"]
KEYS = pa.schema([(name, pa.int64()) for name in KEY_COLUMNS])


def dropped(fresh: pa.Table, known: pa.Table) -> pa.Table:
    """The rows of `fresh` that do not count, and the sequence that does."""
    fresh, known = (rows.select(KEY_COLUMNS).cast(KEYS) for rows in (fresh, known))
    repeated = _repeated(fresh, known)
    firsts = _firsts(pa.concat_tables([repeated, known]))
    told = repeated.join(firsts, ID, right_suffix="_first")
    told = told.filter(pc.not_equal(told["seq"], told["first_seq"]))
    is_conflict = pc.not_equal(told["content"], told["first_content"])
    return pa.table({"seq": told["seq"], "first_seq": told["first_seq"], "is_conflict": is_conflict})


def _repeated(fresh: pa.Table, known: pa.Table) -> pa.Table:
    """Rows whose identity comes more than once: few, as a rule."""
    everything = pa.concat_tables([fresh.select(ID), known.select(ID)])
    counted = everything.group_by(ID).aggregate([([], "count_all")])
    many = counted.filter(pc.greater(counted["count_all"], 1)).select(ID)
    return fresh.join(many, ID, join_type="left semi")


def _firsts(rows: pa.Table) -> pa.Table:
    least = rows.group_by(ID).aggregate([("seq", "min")]).rename_columns([*ID, "first_seq"])
    first = least.join(rows.select(["seq", "content"]), "first_seq", "seq")
    return first.rename_columns([*ID, "first_seq", "first_content"])
