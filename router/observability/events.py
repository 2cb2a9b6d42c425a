"""The names of everything that is ever logged. Constant, so that a search for one finds its source; facts go into fields."""

from __future__ import annotations

from typing import Final

# The process
ROUTER_STARTING: Final = "router.starting"
ROUTER_READY: Final = "router.ready"
ROUTER_DRAINING: Final = "router.draining"
ROUTER_STOPPED: Final = "router.stopped"
ROUTER_FAILED: Final = "router.failed"

# The supervision tree
CHILD_STARTED: Final = "child.started"
CHILD_CRASHED: Final = "child.crashed"
CHILD_ENDED: Final = "child.ended"
CHILD_RESTARTING: Final = "child.restarting"
CHILD_STUCK: Final = "child.stuck"
HELPER_FAILED: Final = "helper.failed"  # figures, retention, a sweep: begun again after a rest; the process goes on
SUPERVISOR_GAVE_UP: Final = "supervisor.gave_up"

# The processes of `router serve --workers`
RELOAD_BEGAN: Final = "reload.began"
RELOAD_ENDED: Final = "reload.ended"
RELOAD_REFUSED: Final = "reload.refused"  # the new settings, or a process with them: the old ones stay
WORKER_KILLED: Final = "worker.killed"  # it did not end in time, or nobody waits any more
PARENT_GONE: Final = "parent.gone"  # this process drains and ends

# The broker
BROKER_CONNECTED: Final = "broker.connected"
BROKER_LOST: Final = "broker.lost"
BROKER_BACK: Final = "broker.back"
BROKER_ERROR: Final = "broker.error"
PERMISSION_DENIED: Final = "broker.permission_denied"  # the server lets this user neither publish nor listen there
LOGIN_UNPROTECTED: Final = "broker.login_unprotected"  # a password, token or key to another host, and no TLS

# Streams and consumers
TOPOLOGY_CREATED: Final = "topology.created"
TOPOLOGY_UPDATED: Final = "topology.updated"
TOPOLOGY_DRIFT: Final = "topology.drift"

# Buckets
BUCKET_AWAY: Final = "bucket.away"
BUCKET_BACK: Final = "bucket.back"
BUCKET_REPLACED: Final = "bucket.replaced"

# Delivery
PULL_STALLED: Final = "pull.stalled"
CONSUMER_GONE: Final = "consumer.gone"
CONSUMER_BACK: Final = "consumer.back"
LANE_STARTED: Final = "lane.started"
LANE_PAUSED: Final = "lane.paused"
LANE_RESUMED: Final = "lane.resumed"
OVERLOAD_BEGAN: Final = "overload.began"  # requests are answered from their live copies, tenants in turn
OVERLOAD_REFUSES: Final = "overload.refuses"  # what is above its tenant's share is answered overloaded
OVERLOAD_ENDED: Final = "overload.ended"
STORAGE_REFUSED: Final = "storage.refused"  # a stream has no room: some messages wait, the others go on
STORAGE_TAKES: Final = "storage.takes"
LETTER_GIVEN_UP: Final = "letter.given_up"  # the dead letters are full: the requester was told, no letter was stored
UNREAD_DROPPED: Final = "messages.dropped_unread"
ASSIGNMENTS_KEPT: Final = "assignments.kept"  # those that are done could not be removed from their stream
LANE_DRAINED: Final = "lane.drained"
HANDLER_FAILED: Final = "handler.failed"
HANDLER_HUNG: Final = "handler.hung"
MESSAGE_SETTLED: Final = "message.settled"
EVIDENCE_FAILED: Final = "evidence.failed"
LETTER_STORED: Final = "letter.stored"
LETTER_TRUNCATED: Final = "letter.truncated"
LETTERS_DISABLED: Final = "letters.disabled"
SUBJECT_REFUSED: Final = "subject.refused"
REPLY_REFUSED: Final = "reply.refused"
REPLY_FAILED: Final = "reply.failed"

# Meaning
CONTRACT_VIOLATION: Final = "contract.violation"
POLICY_LOADED: Final = "policy.loaded"
POLICY_BROKEN: Final = "policy.broken"
POLICY_WARNING: Final = "policy.warning"
POLICY_NOT_SEEDED: Final = "policy.not_seeded"
SAMPLE_REPLACED: Final = "sample.replaced"  # by a directory of somebody's own
SAMPLE_REMOVED: Final = "sample.removed"
EXTENSIONS_LOADED: Final = "extensions.loaded"
EXTENSION_BROKEN: Final = "extension.broken"
EXTENSION_FAILED: Final = "extension.failed"  # at its author's side
EXTENSION_TOLERATED: Final = "extension.tolerated"  # it failed or rejected, and its mode says warn
EXTENSION_REGISTERED: Final = "extension.registered"
EXTENSION_UNREGISTERED: Final = "extension.unregistered"

BREAKER_CHANGED: Final = "breaker.changed"
BREAKER_UNREADABLE: Final = "breaker.unreadable"
RESULT_FORGED: Final = "result.forged"
RESULT_CONFLICT: Final = "result.conflict"
WORKER_STARTS: Final = "worker.starts"  # a durable that was just made: which of the assignments that waited are done
WORKER_CHANGED: Final = "worker.changed"
HEARTBEAT_REFUSED: Final = "heartbeat.refused"
WORKERS_LETTER: Final = "worker.letter"

# The mailbox
DATABASE_UNPROTECTED: Final = "database.unprotected"  # another host, and the connection string does not insist on TLS
SWEEP_FAILED: Final = "inbox.sweep_failed"
INBOX_CLEANED: Final = "inbox.cleaned"
INBOX_WAITS: Final = "inbox.waits"  # another process has events in hand, or died with them: they come again after the ack wait
INBOX_UNSERVED: Final = "inbox.unserved"  # its handler answers, and serves no event: nothing is spent
INBOX_SERVED: Final = "inbox.served"  # it serves again
INBOX_NOT_CLEANED: Final = "inbox.not_cleaned"

# Agents
AGENT_RESUMED: Final = "agent.resumed"
DUPLICATE_DETECTED: Final = "duplicate.detected"  # MeshForge, step 2
MESSAGE_RESCUED: Final = "message.rescued"  # the server had given it up

# The outbox
OUTBOX_PAUSED: Final = "outbox.paused"  # the broker or the database is away: nothing is spent
OUTBOX_RESUMED: Final = "outbox.resumed"
OUTBOX_PARKED: Final = "outbox.parked"
OUTBOX_TAKEN_BACK: Final = "outbox.taken_back"  # the broker lost what it had acknowledged: published again
OUTBOX_SCRUB_FAILED: Final = "outbox.scrub_failed"  # what rotted stays unseen until it can read again; publishing goes on
OUTBOX_CLEANED: Final = "outbox.cleaned"

# Operators
ALERT_RAISED: Final = "alert.raised"
HTTP_LISTENING: Final = "http.listening"
GAUGE_FAILED: Final = "gauge.failed"
SERVICE_FAILED: Final = "service.failed"
ADMIN_KEY_REFUSED: Final = "admin.key_refused"  # a wrong api_key, or none: at most one line a second
