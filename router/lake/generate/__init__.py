"""A realistic load of usage events, and the exact figures that the tables must give for it, to the
last decimal.

    load = Load(LoadPlan(events=1_000_000, seed=7))
    await fill(jetstream, load)          publishes every message, in this order
    load.truth.to_json()                 sums by day × tenant × provider × type × status × model,
                                         counts of irregular messages

The same plan gives the same messages, byte for byte. This package uses neither Spark nor the
warehouse.
"""

from router.lake.generate.fill import FillResult, fill
from router.lake.generate.load import Load
from router.lake.generate.population import LoadPlan
from router.lake.generate.truth import Truth

__all__ = ["FillResult", "Load", "LoadPlan", "Truth", "fill"]
