"""Copies of streams outside their servers, and how they become the router's streams again
(docs/how-to/two-places.md).

snapshot            one stream to a file and back, by JetStream's own snapshot requests, whose
                    answers come after long work
manifest            what a backup holds, and the checksum of each file
backup restore      every stream, in the order that keeps what was acked; never over a stream that
                    exists
mirrors promotion   the streams mirrored from another domain, and the mirrors made the router's own
                    streams
durables            where those of a promoted place begin
windows             how long effect streams must know ids, so that a message which is handled again
                    changes nothing
"""

from router.operate.recovery.backup import RestoredStream, restore, save_backup
from router.operate.recovery.manifest import Manifest, SavedStream, read_manifest, verify_files
from router.operate.recovery.promotion import (
    PromotedStream,
    add_source,
    choose_start,
    declare_mirror,
    declare_mirrors,
    promote_streams,
    start_durables,
)

__all__ = [
    "Manifest",
    "PromotedStream",
    "RestoredStream",
    "SavedStream",
    "add_source",
    "choose_start",
    "declare_mirror",
    "declare_mirrors",
    "promote_streams",
    "read_manifest",
    "restore",
    "save_backup",
    "start_durables",
    "verify_files",
]
