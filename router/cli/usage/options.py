"""Options that several usage commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from router.lake.warehouse import Warehouse

WAREHOUSE = ".router/warehouse"

WarehouseAt = Annotated[
    str, typer.Option("--warehouse", metavar="DIR", help="A directory, or a URI such as s3://bucket/usage.", envvar="USAGE_WAREHOUSE")
]
AsOfCommit = Annotated[int | None, typer.Option("--as-of-commit", metavar="N", help="The tables as they were then. Default: now.", min=1)]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="Spark's master. Default: local[*].")]


def open_warehouse(location: str) -> Warehouse:
    """Open a warehouse that has commits. Raises Misconfigured if it has none."""
    from router.core.errors import Misconfigured

    try:
        from router.lake.warehouse import Warehouse
    except ImportError as exc:
        raise Misconfigured("pyarrow", "is not installed: pip install 'beamline-router[spark]'") from exc
    warehouse = Warehouse(location)
    if not warehouse.head():
        raise Misconfigured("--warehouse", f"{location} has no commits: fill it with `router usage ingest --warehouse {location}`")
    return warehouse
