"""As much of a SparkSession as the jobs ask for, in this process: tasks, and rows of one column.

What travels between driver and executors is pickled and read again, as Spark does it, so a task
that could not travel fails here, too. That Spark's own does the same is `jobs/test_on_spark`.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

Cells = Iterable[tuple[Any, ...]]


class WithoutJvm:
    """A session, and its context."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    @property
    def sparkContext(self) -> "WithoutJvm":  # noqa: N802
        return self

    def setLogLevel(self, level: str) -> None:  # noqa: N802
        """Nothing logs."""

    def getLocalProperty(self, name: str) -> None:  # noqa: N802
        """No query: nothing is known of it."""

    def createDataFrame(self, rows: Cells, schema: StructType) -> "Frame":  # noqa: N802
        return Frame(self, [Row(*schema.names)(*row) for row in rows])

    def stop(self) -> None:
        """Nothing runs."""

    def parallelize(self, tasks: Iterable[Any], slices: int) -> "Tasks":
        assert slices > 0  # Spark takes no fewer
        return Tasks([travelled(task) for task in tasks])


class Frame:
    """What a micro-batch is given."""

    def __init__(
        self, session: WithoutJvm, rows: list[Row], partitions: list[list[Row]] | None = None
    ) -> None:
        self.sparkSession = session
        self._rows = rows
        self._partitions = [rows] if partitions is None else partitions

    def __getitem__(self, name: str) -> str:
        return name

    def repartitionById(self, count: int, column: str) -> "Frame":  # noqa: N802
        return Frame(
            self.sparkSession,
            self._rows,
            [
                [row for row in self._rows if row[column] % count == number]
                for number in range(count)
            ],
        )

    @property
    def rdd(self) -> "Frame":
        return self

    def mapPartitions(self, work: Callable[[Any], Any]) -> "Tasks":  # noqa: N802
        return Tasks(
            [
                result
                for rows in self._partitions
                for result in travelled(list(travelled(work)(iter(travelled(rows)))))
            ]
        )

    def mapPartitionsWithIndex(self, work: Callable[[int, Any], Any]) -> "Tasks":  # noqa: N802
        parts = ((number, iter(travelled(rows))) for number, rows in enumerate(self._partitions))
        return Tasks(
            [
                result
                for number, rows in parts
                for result in travelled(list(travelled(work)(number, rows)))
            ]
        )

    def collect(self) -> list[Row]:
        return self._rows


class Tasks:
    """One after the other, when they are collected."""

    def __init__(self, tasks: list[Any]) -> None:
        self._tasks = tasks

    def map(self, work: Callable[[Any], Any]) -> "Tasks":
        return Tasks([travelled(travelled(work)(task)) for task in self._tasks])

    def flatMap(self, work: Callable[[Any], Iterable[Any]]) -> "Tasks":  # noqa: N802
        return Tasks(
            [row for task in self._tasks for row in travelled(list(travelled(work)(task)))]
        )

    def union(self, other: "Tasks") -> "Tasks":
        return Tasks([*self._tasks, *other._tasks])

    def partitionBy(self, count: int, find: Callable[[Any], int]) -> "Frame":  # noqa: N802
        return Frame(
            WithoutJvm(),
            [],
            [
                [row for row in self._tasks if find(row[0]) % count == number]
                for number in range(count)
            ],
        )

    def collect(self) -> list[Any]:
        return self._tasks


def travelled(value: Any) -> Any:
    """As it is on the other side."""
    pickled = CloudPickleSerializer()
    return pickled.loads(pickled.dumps(value))


IN_PROCESS = cast(SparkSession, WithoutJvm())
