"""The control, a router that does lose: it acknowledges and answers at once, and stores what came
of it half a second later.

`python -m tests.rigs.faults.hasty_router serve`, settings from the environment; all else is the
real router.
"""

import asyncio

from tests.support.clocked import make_steppable

LATER_S = 0.5

if __name__ == "__main__":
    make_steppable()
    from router.cli import main
    from router.delivery.consume.settle import Settler
    from router.delivery.consume.settlement import PendingSettlement

    def settle(self: Settler, pending: PendingSettlement) -> None:
        self._on_stored(pending, ())
        if effects := pending.settlement.effects:
            asyncio.get_running_loop().call_later(
                LATER_S, self._publisher.publish, effects, lambda _: None
            )

    Settler.settle = settle  # type: ignore[method-assign]
    main()
