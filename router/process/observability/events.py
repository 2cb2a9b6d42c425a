"""The names of all log events. They are constants, so that a search for one finds its source; facts
go into fields.
"""

from __future__ import annotations

from typing import Final

# The process
ROUTER_STARTING: Final = "router.starting"
ROUTER_READY: Final = "router.ready"
ROUTER_STOPPED: Final = "router.stopped"

# The supervision tree
CHILD_STARTED: Final = "child.started"
CHILD_CRASHED: Final = "child.crashed"
CHILD_ENDED: Final = "child.ended"
CHILD_RESTARTING: Final = "child.restarting"
CHILD_STUCK: Final = "child.stuck"
# a background task, which is restarted after a pause; the process goes on
HELPER_FAILED: Final = "helper.failed"
SUPERVISOR_GAVE_UP: Final = "supervisor.gave_up"

# The processes of `router serve --processes`
RELOAD_BEGAN: Final = "reload.began"
RELOAD_ENDED: Final = "reload.ended"
# the new settings, or a process with them, are not usable: the old ones stay
RELOAD_REFUSED: Final = "reload.refused"
# its event loop hangs: it is killed, and another process takes its place
PROCESS_SILENT: Final = "process.silent"
# it did not end before its deadline, or the parent was asked to end at once
PROCESS_KILLED: Final = "process.killed"
PARENT_DIED: Final = "parent.died"  # the process drains and ends

# The broker
BROKER_DISCONNECTED: Final = "broker.disconnected"
BROKER_RECONNECTED: Final = "broker.reconnected"
BROKER_ERROR: Final = "broker.error"
# JetStream does not answer, or a stream or consumer can store nothing
BROKER_WITHOUT_LEADER: Final = "broker.without_leader"
BROKER_WITH_LEADER: Final = "broker.with_leader"
# the server enforces a limit of the account or its own: `limit` has its words; the connection is
# lost
BROKER_LIMIT: Final = "broker.limit"
# the server does not let this user publish to, or subscribe to, the subject
PERMISSION_DENIED: Final = "broker.permission_denied"
# a password, token or key is sent to another host without TLS
LOGIN_UNPROTECTED: Final = "broker.login_unprotected"

# Streams and consumers
TOPOLOGY_DRIFT: Final = "topology.drift"

# Buckets
BUCKET_UNAVAILABLE: Final = "bucket.unavailable"
BUCKET_AVAILABLE: Final = "bucket.available"
BUCKET_REPLACED: Final = "bucket.replaced"

# Delivery
CONSUMER_DELETED: Final = "consumer.deleted"
CONSUMER_PAUSED: Final = "consumer.paused"
# an operator paused the durable: nothing is delivered
CONSUMER_PAUSED_BY_SERVER: Final = "consumer.paused_by_server"
CONSUMER_RESUMED_BY_SERVER: Final = "consumer.resumed_by_server"
CONSUMER_RESUMED: Final = "consumer.resumed"
# requests are answered from their passing copies, tenants in turn
OVERLOAD_BEGAN: Final = "overload.began"
# a request above its tenant's share is answered `overloaded`
OVERLOAD_REFUSES: Final = "overload.refuses"
OVERLOAD_ENDED: Final = "overload.ended"
# what a message must store is too large, or its stream is missing or sealed
STORAGE_REFUSED_FOR_GOOD: Final = "storage.refused_for_good"
# a stream is full, missing or sealed: messages that must store there wait, the others go on
STORAGE_REFUSED: Final = "storage.refused"
STORAGE_TAKES: Final = "storage.takes"
# they are heard, and their stream stores none of them
REQUESTS_NOT_STORED: Final = "requests.not_stored"
REQUESTS_STORED_AGAIN: Final = "requests.stored_again"
# a bucket is unavailable: messages that need it wait, the others go on
REQUESTS_WAIT: Final = "requests.wait"
REQUESTS_GO_ON: Final = "requests.go_on"
# their stream is full: the requester is answered, no dead letter is stored
DEAD_LETTER_OMITTED: Final = "dead_letter.omitted"
UNREAD_DROPPED: Final = "messages.dropped_unread"
# finished assignments could not be removed from their stream
ASSIGNMENTS_KEPT: Final = "assignments.kept"
HANDLER_FAILED: Final = "handler.failed"
MESSAGE_SETTLED: Final = "message.settled"
PUBLISH_FAILED: Final = "publish.failed"
DEAD_LETTER_STORED: Final = "dead_letter.stored"
DEAD_LETTERS_DISABLED: Final = "dead_letters.disabled"
SUBJECT_REFUSED: Final = "subject.refused"
REPLY_REFUSED: Final = "reply.refused"

# Decisions, extensions, workers
CONTRACT_VIOLATION: Final = "contract.violation"
# the events of violations cannot be stored; the messages go on
VIOLATIONS_UNSTORED: Final = "contract.violations_unstored"
POLICY_LOADED: Final = "policy.loaded"
POLICY_BROKEN: Final = "policy.broken"
POLICY_WARNING: Final = "policy.warning"
POLICY_NOT_SEEDED: Final = "policy.not_seeded"
SAMPLE_REPLACED: Final = "sample.replaced"  # by a user's own directory
SAMPLE_REMOVED: Final = "sample.removed"
EXTENSIONS_LOADED: Final = "extensions.loaded"
EXTENSION_BROKEN: Final = "extension.broken"
EXTENSION_FAILED: Final = "extension.failed"  # in the extension's own code
# functions past their deadline keep all threads: requests wait for one
EXTENSION_THREADS_HELD: Final = "extension.threads_held"
EXTENSION_TOLERATED: Final = "extension.tolerated"  # it failed or rejected, and its mode is `warn`
EXTENSION_REGISTERED: Final = "extension.registered"
EXTENSION_UNREGISTERED: Final = "extension.unregistered"
PROVIDER_KEY_UNREAD: Final = "provider.key_unread"  # its file is illegal: the last key is used
PROVIDER_MODELS_UNKNOWN: Final = "provider.models_unknown"  # the API does not list them

# the lease of a partition cannot be read or renewed
LEASE_UNAVAILABLE: Final = "partition.lease_unavailable"
PARTITION_TAKEN_OVER: Final = "partition.taken_over"  # none of its own routers renewed its lease
PARTITION_HANDED_BACK: Final = "partition.handed_back"
PARTITION_UNATTENDED: Final = "partition.unattended"  # no router takes its requests
PARTITION_ATTENDED: Final = "partition.attended"  # again
BREAKER_CHANGED: Final = "breaker.changed"
BREAKER_UNREADABLE: Final = "breaker.unreadable"
# it limits a tenant, whose decisions leave it alone for a while
PROVIDER_LIMITS: Final = "provider.limits"
FIGURES_UNREADABLE: Final = "figures.unreadable"
FIGURES_NOT_SHARED: Final = "figures.not_shared"
RATIOS_UNREADABLE: Final = "ratios.unreadable"
RATIOS_NOT_SHARED: Final = "ratios.not_shared"
CANARY_UNREADABLE: Final = "canary.unreadable"
CANARY_NOT_SHARED: Final = "canary.not_shared"
CANARY_NOT_ENDED: Final = "canary.not_ended"
CANARY_ENDED: Final = "canary.ended"
INVOCATION_NOT_METERED: Final = "invocation.not_metered"
INVOCATION_ESTIMATED: Final = "invocation.estimated"  # its router died, or could not store its end
# a record of an attempt, as a router of another version may write it
INVOCATION_UNREADABLE: Final = "invocation.unreadable"
BUDGET_BROKEN: Final = "budget.broken"
PRICE_BROKEN: Final = "price.broken"
KEY_BROKEN: Final = "key.broken"
# its bucket, or the usage stream: reservations wait
BUDGET_UNAVAILABLE: Final = "budget.unavailable"
# another usage stream, or one that lost its end: settled on after the last settled event
USAGE_REPLACED: Final = "usage.replaced"
# of tenants in the turns: each instance goes on with what it knows
PLACES_NOT_SHARED: Final = "places.not_shared"
# their bucket is unavailable: this instance counts by itself
RATE_LIMITS_ALONE: Final = "rate_limits.alone"
RESULT_FORGED: Final = "result.forged"
RESULT_CONFLICT: Final = "result.conflict"
RESULT_OVERRULED: Final = "result.overruled"  # it says otherwise than its assignment, which counts
RESULT_HELD: Final = "result.held"  # its cost is above the bound, and booked at it
# its durable is new: how many of the assignments that waited are finished
WORKER_STARTS: Final = "worker.starts"
# plain handlers past their deadline keep all threads: assignments wait for one
WORKER_THREADS_HELD: Final = "worker.threads_held"
WORKER_CHANGED: Final = "worker.changed"
HEARTBEAT_REFUSED: Final = "heartbeat.refused"
WORKER_DEAD_LETTER: Final = "worker.dead_letter"

# The mailbox
# another host, and the connection string does not require TLS
DATABASE_UNPROTECTED: Final = "database.unprotected"
STALE_ROW_SCAN_FAILED: Final = "inbox.stale_row_scan_failed"
INBOX_CLEANED: Final = "inbox.cleaned"
# another process holds the events, or died with them: they are redelivered after the ack wait
INBOX_WAITS: Final = "inbox.waits"
# its handler answers, and refuses every event: no attempt is used
INBOX_UNSERVED: Final = "inbox.unserved"
INBOX_SERVED: Final = "inbox.served"  # the handler accepts events again
INBOX_NOT_CLEANED: Final = "inbox.not_cleaned"

# Agents
AGENT_RESUMED: Final = "agent.resumed"
# messages of an earlier run are refused by their stream; a later start sends them again
AGENT_UNSENT: Final = "agent.unsent"
DUPLICATE_DETECTED: Final = "duplicate.detected"  # MeshForge, step 2
MESSAGE_RESCUED: Final = "message.rescued"  # the server had stopped delivering it

# The outbox
# the broker or the database is unavailable: no attempt is used
OUTBOX_PAUSED: Final = "outbox.paused"
OUTBOX_RESUMED: Final = "outbox.resumed"
OUTBOX_PARKED: Final = "outbox.parked"
# the broker lost a message that it had acknowledged: it is published again
OUTBOX_TAKEN_BACK: Final = "outbox.taken_back"
# until it works again, lost messages are not found
OUTBOX_INTEGRITY_SCAN_FAILED: Final = "outbox.integrity_scan_failed"
OUTBOX_CLEANED: Final = "outbox.cleaned"

# The log itself
LOG_LINES_LOST: Final = "log.lines_lost"  # so many could not be written; this one could
# what a service tells on standard output, which has no room or no reader
OUTPUT_NOT_WRITTEN: Final = "output.not_written"

# Operators
ALERT_RAISED: Final = "alert.raised"
GAUGE_FAILED: Final = "gauge.failed"
SERVICE_FAILED: Final = "service.failed"
GATEWAY_FAILED: Final = "gateway.failed"
# its client has it, and the same request would get an error; at most one line a minute
GATEWAY_ANSWER_NOT_KEPT: Final = "gateway.answer_not_kept"
# a wrong password, or no such user; at most one line a second
CONSOLE_LOGIN_REFUSED: Final = "console.login_refused"
# no user of the file can log in, and those who were are logged out
CONSOLE_USERS_UNREADABLE: Final = "console.users_unreadable"
# a replay or a discard ended by an error of ours: what it did until then stands
CONSOLE_RUN_FAILED: Final = "console.run_failed"
# a write is done, and its audit event could not be stored
CONSOLE_AUDIT_LOST: Final = "console.audit_lost"
# the same of a request to a router, whose answer says so
ADMIN_AUDIT_LOST: Final = "admin.audit_lost"
# a wrong api_key, or none; at most one line a second
ADMIN_KEY_REFUSED: Final = "admin.key_refused"
