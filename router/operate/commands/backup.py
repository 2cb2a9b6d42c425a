"""`router backup` and `router restore`: every stream into a directory, and back onto a server that
has none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from router.operate.commands.topology import RESTART, record_topology
from router.operate.recovery import RestoredStream, SavedStream, read_manifest, save_backup
from router.operate.recovery import restore as make_again
from router.operate.recovery.recovery_order import list_effect_streams, list_to_save
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import print_json_lines

Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="One file for each stream, and manifest.json.", file_okay=False
    ),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--stream",
        metavar="NAME",
        help="Also this stream, of a bus, a mailbox or agents; may be given again.",
    ),
]
Replicas = Annotated[
    int | None,
    typer.Option(
        "--replicas",
        metavar="N",
        help="Copies of each stream. Default: as they were saved.",
        min=1,
        max=5,
    ),
]


@command()
async def backup(session: CommandSession, directory: Directory, stream: Others = None) -> None:
    """Save the router's streams and buckets with what their durables have acked, while all goes on.

    DIR must be empty or new. Do not replay or discard dead letters meanwhile. Exit status: 0 all
    are saved, 1 DIR is not empty, a named stream is missing, or one could not be saved.

    Example:  router backup /backup/2026-11-23    router backup ./all --stream SEA_EVENTS
    """
    jetstream = await session.open_jetstream()
    names = await list_to_save(jetstream, session.settings, stream or ())
    manifest = await save_backup(
        jetstream, names, directory, lambda saved: _tell_saved(session, saved)
    )
    if not session.as_json:
        print(f"{len(manifest.streams)} streams in {directory}")


@command()
async def restore(session: CommandSession, directory: Directory, replicas: Replicas = None) -> int:
    """Make every stream of a backup again. Nothing is overwritten: where one of them exists,
    nothing is restored.

    All files are compared with their checksums first. Start the NATS servers again afterwards, and
    then the routers. Exit status: 0 all are there, 1 a stream exists, a file is damaged, or a
    durable is missing.

    Example:  router restore /backup/2026-11-23    router restore /backup/2026-11-23 --replicas 1
    """
    manifest, effects = read_manifest(directory), list_effect_streams(session.settings)
    jetstream = await session.open_jetstream()
    restored: list[RestoredStream] = []

    def on_restored(stream: RestoredStream) -> None:
        restored.append(stream)
        _tell_restored(session, stream)

    try:
        await make_again(
            jetstream, directory, manifest, effects, replicas=replicas, on_restored=on_restored
        )
    except BaseException:  # also Ctrl-C
        if restored:
            exit_codes.complain(
                f"not all: {', '.join(stream.name for stream in restored)} exist now, and a "
                "restore needs a server without them"
            )
        raise
    finally:
        await record_topology(session, f"restore {directory}", [stream.name for stream in restored])
    exit_codes.complain(RESTART)
    incomplete = [stream.name for stream in restored if stream.missing_consumers]
    if incomplete:
        return exit_codes.refuse(
            f"durables are missing on {', '.join(incomplete)}: they were not in the "
            "snapshot, and start anew"
        )
    return exit_codes.OK


def _tell_saved(session: CommandSession, saved: SavedStream) -> None:
    if session.as_json:
        file = {"file": saved.file, "bytes": saved.bytes, "sha256": saved.sha256}
        print_json_lines([{"name": saved.name, "messages": saved.messages, **file}])
    else:
        print(
            f"{saved.name:32} {saved.messages:>12,} messages {saved.bytes:>15,} bytes", flush=True
        )


def _tell_restored(session: CommandSession, restored: RestoredStream) -> None:
    if session.as_json:
        print_json_lines([to_builtins(restored)])
    else:
        print(
            (
                f"{restored.name:32} {restored.messages:>12,} messages {restored.consumers:>6} "
                "durables"
            ),
            flush=True,
        )
