"""What this instance has leased is too little for a decision: a bucket must be asked first."""

from __future__ import annotations


class LeaseShort(Exception):
    """Raised by a decision, which may be tried again after `wait`. Nothing is reserved by it."""

    async def wait(self) -> None:
        """Until the bucket has answered. Raises BrokerUnavailable where the decision cannot do
        without.
        """
        raise NotImplementedError
