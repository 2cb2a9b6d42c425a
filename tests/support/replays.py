"""`router dlq replay --all`: to its end, and as a process that dies at a crash point."""

from tests.support.cli import CommandResult, call_command_async, clean_environment
from tests.support.forking import fork_server
from tests.support.kills import KILLED

REPLAY = ("dlq", "replay", "--all")


async def replay(url: str, *options: str) -> CommandResult:
    return await call_command_async(*REPLAY, *options, environ={"ROUTER_NATS__URL": url})


async def kill_replay(url: str, point: str, *options: str) -> None:
    """Replay until the process dies at `point`."""
    process = fork_server().start(
        ("router", *REPLAY, *options),
        clean_environment({"ROUTER_NATS__URL": url, "CRASHPOINT": point}),
    )
    assert process.wait() == KILLED, f"it passed {point}"
