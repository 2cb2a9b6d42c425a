"""Signals that step a clock do nothing else."""

import signal

from router.shell.signals import run_until_signal
from tests.support.clocked import OFFSETS_S


async def test_a_serving_command_does_not_hear_them() -> None:
    before = {number: signal.getsignal(number) for number in OFFSETS_S}
    during = {}

    async def work() -> None:
        during.update({number: signal.getsignal(number) for number in OFFSETS_S})

    await run_until_signal(work())
    assert during == before
