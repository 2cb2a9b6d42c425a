"""A server or a process that a test starts: `with` starts it, and removes it at the block's end."""

from abc import ABC, abstractmethod
from typing import Self


class Startable(ABC):
    @abstractmethod
    def start(self) -> Self:
        """Returns when it can be used."""

    @abstractmethod
    def remove(self) -> None:
        """Its end, and that of all that it has written; whether or not it runs."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.remove()
