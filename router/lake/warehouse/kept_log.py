"""The log of a table is never cut: a seal is read as of a version, for ever, and a version is read by its log.

By default delta-rs deletes entries that are older than thirty days after a commit that follows a checkpoint, and so do other tools.
A table says that they must not; a table that does not say it yet gets the property before anything but a commit of ours changes it.
"""

from __future__ import annotations

from types import MappingProxyType

from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError

_NAME = "delta.enableExpiredLogCleanup"
KEPT_LOG = MappingProxyType({_NAME: "false"})  # properties of a table
AFTER_COMMIT = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


def keep_log(table: DeltaTable) -> None:
    """Say in the table that its log is kept, if it does not say so yet. Raises CommitFailedError if that is refused."""
    while table.metadata().configuration.get(_NAME) != KEPT_LOG[_NAME]:
        before = table.version()
        try:
            table.alter.set_table_properties(dict(KEPT_LOG), post_commithook_properties=AFTER_COMMIT)
        except CommitFailedError:
            table.update_incremental()
            if table.version() == before:
                raise
        table.update_incremental()
