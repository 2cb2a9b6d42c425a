"""What a client may try on the router's server, and which role may do it: the table behind
docs/reference/permissions.md.

A new subject, stream or service of the router's is a new line here, and one in
deploy/nats/accounts.conf.
"""

from collections.abc import Mapping

from msgspec import Struct

from tests.support.extension_author import a_request
from tests.support.requests import a_body


class ClientAction(Struct, frozen=True):
    """`how`: ask (an answer without an error comes back) | tell (it is heard) | listen (what is told there is heard) |
    bind (the server delivers to a subscriber of the router's account).

    `roles`: who may. `told`: for listening to a wildcard, a subject that it takes in.
    """

    says: str
    how: str
    subject: str
    roles: tuple[str, ...]
    body: object = None
    told: str = ""


_API = "$JS.API."
_PULL = {"batch": 1, "no_wait": True}
_POLICY = {"version": "1.0", "providers": [{"name": "first", "weight": 1}]}
_SCRATCH = {"name": "SCRATCH", "subjects": ["scratch"], "storage": "memory"}


def _consumer(stream: str, **config: object) -> Mapping[str, object]:
    return {
        "stream_name": stream,
        "config": {
            "ack_policy": "none",
            "mem_storage": True,
            "inactive_threshold": 10**9,
            **config,
        },
    }


CLIENT_ACTIONS = (
    # requests and answers
    ClientAction(
        "ask for a decision",
        "ask",
        "beamline.router.v1.decide",
        ("gateway", "http_gateway", "operator"),
        a_body(),
    ),
    ClientAction(
        "ask for one by tenant (partitions)",
        "tell",
        "beamline.router.v1.decide.by.acme",
        ("gateway", "http_gateway"),
        a_body(),
    ),
    ClientAction(
        "listen to the requests of all clients", "listen", "beamline.router.v1.decide", ("router",)
    ),
    ClientAction(
        "listen to answers without an inbox",
        "listen",
        "beamline.router.v1.decide.reply",
        ("gateway", "operator"),
    ),
    ClientAction(
        "listen to a gateway's inboxes",
        "listen",
        "_INBOX_gateway.one.>",
        ("gateway",),
        told="_INBOX_gateway.one.x",
    ),
    ClientAction(
        "listen to all gateways' inboxes",
        "listen",
        "_INBOX_gateway.>",
        (),
        told="_INBOX_gateway.one.x",
    ),
    ClientAction(
        "listen to the HTTP gateway's inboxes",
        "listen",
        "_INBOX_http_gateway.>",
        ("http_gateway",),
        told="_INBOX_http_gateway.x",
    ),
    ClientAction(
        "listen to all workers' inboxes",
        "listen",
        "_INBOX_worker.>",
        (),
        told="_INBOX_worker.one.x",
    ),
    ClientAction(
        "listen to the router's inboxes",
        "listen",
        "_INBOX_router.>",
        ("router",),
        told="_INBOX_router.x",
    ),
    ClientAction("listen to everything", "listen", ">", (), told="anything"),
    ClientAction("answer the HTTP gateway unasked", "tell", "_INBOX_http_gateway.x", ("router",)),
    ClientAction("answer a gateway unasked", "tell", "_INBOX_gateway.one.x", ("router",)),
    ClientAction("answer the router unasked", "tell", "_INBOX_router.x", ("router",)),
    ClientAction(
        "invoke a provider through the router",
        "ask",
        "beamline.provider.v1.invoke",
        ("gateway", "http_gateway", "worker", "operator"),
        {},
    ),
    ClientAction(
        "ask for an earlier decision",
        "ask",
        "beamline.router.v1.get_decision",
        ("http_gateway", "operator"),
        {"tenant_id": "acme", "request_id": "r-1"},
    ),
    # extensions
    ClientAction(
        "call an extension",
        "ask",
        "beamline.ext.validate.pii_guard.v1",
        ("router", "operator"),
        a_request(),
    ),
    ClientAction(
        "answer calls of pii_guard", "listen", "beamline.ext.validate.pii_guard.v2", ("author",)
    ),
    ClientAction(
        "answer calls of another author's", "listen", "beamline.ext.pre.normalize_text.v1", ()
    ),
    ClientAction(
        "answer invocations of the provider openai",
        "listen",
        "beamline.provider.openai.v1",
        ("provider",),
    ),
    ClientAction(
        "answer invocations of another provider", "listen", "beamline.provider.other.v1", ()
    ),
    ClientAction(
        "register an extension",
        "ask",
        "beamline.router.v1.admin.put_extension",
        ("operator",),
        {"id": "pii_guard", "type": "validator", "subject": "beamline.ext.validate.pii_guard.v1"},
    ),
    # work
    ClientAction(
        "take a decide request",
        "ask",
        f"{_API}CONSUMER.MSG.NEXT.ROUTER_DECIDE.router-decide-consumer",
        ("router",),
        _PULL,
    ),
    ClientAction(
        "take a result",
        "ask",
        f"{_API}CONSUMER.MSG.NEXT.ROUTER_RESULTS.router-results",
        ("router",),
        _PULL,
    ),
    ClientAction(
        "take an assignment",
        "ask",
        f"{_API}CONSUMER.MSG.NEXT.ROUTER_ASSIGNMENTS.caf-worker",
        ("worker",),
        _PULL,
    ),
    ClientAction(
        "settle a decide request",
        "tell",
        "$JS.ACK.ROUTER_DECIDE.router-decide-consumer.1.9999.1.1.0",
        ("router",),
    ),
    ClientAction(
        "settle an assignment",
        "tell",
        "$JS.ACK.ROUTER_ASSIGNMENTS.caf-worker.1.9999.1.1.0",
        ("worker",),
    ),
    ClientAction(
        "write down a start of a decide request",
        "ask",
        "$KV.ROUTER_ATTEMPTS.ROUTER_DECIDE.router-decide-consumer.0.0",
        ("router",),
        1,
    ),
    ClientAction(
        "write down a start of an assignment",
        "ask",
        "$KV.ROUTER_ATTEMPTS.ROUTER_ASSIGNMENTS.caf-worker.0.0",
        ("worker",),
        1,
    ),
    ClientAction("push an assignment", "ask", "caf.exec.assign.v1", ("router", "operator"), {}),
    ClientAction(
        "see who takes assignments",
        "ask",
        f"{_API}CONSUMER.LIST.ROUTER_ASSIGNMENTS",
        ("router", "operator", "console"),
    ),
    ClientAction(
        "remove assignments that are done",
        "ask",
        f"{_API}STREAM.PURGE.ROUTER_ASSIGNMENTS",
        ("router",),
        {"seq": 1},
    ),
    ClientAction(
        "remove one assignment that is done",
        "ask",
        f"{_API}STREAM.MSG.DELETE.ROUTER_ASSIGNMENTS",
        ("router",),
        {"seq": 1},
    ),
    ClientAction(
        "read assignments by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_ASSIGNMENTS.read-scratch",
        ("router", "operator"),
        _consumer("ROUTER_ASSIGNMENTS", name="read-scratch"),
    ),
    ClientAction("tell a result", "ask", "caf.exec.result.v1", ("worker", "operator"), {}),
    ClientAction("listen to results", "listen", "caf.exec.result.v1", ()),
    ClientAction(
        "acknowledge an assignment", "ask", "caf.exec.assign.v1.ack", ("worker", "operator"), {}
    ),
    ClientAction("give an assignment up", "ask", "caf.exec.dlq.v1", ("worker",), {}),
    ClientAction(
        "tell of an assignment that cannot be read", "ask", "caf.deadletter.v1", ("worker",), {}
    ),
    ClientAction("say that a worker is alive", "tell", "caf.worker.heartbeat.v1", ("worker",)),
    ClientAction(
        "hear which workers are alive",
        "listen",
        "caf.worker.heartbeat.v1",
        ("router", "operator", "console"),
    ),
    # usage
    ClientAction("meter usage", "ask", "beamline.usage.v1.metered", ("router",), {}),
    ClientAction("adjust usage", "ask", "beamline.usage.v1.adjusted", ("router", "operator"), {}),
    ClientAction("say that a cost is held", "ask", "beamline.usage.v1.held.acme", ("router",), {}),
    ClientAction(
        "read held costs by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_HELD.read-held",
        ("operator",),
        _consumer("ROUTER_HELD", name="read-held"),
    ),
    ClientAction(
        "take out a held cost",
        "ask",
        f"{_API}STREAM.MSG.DELETE.ROUTER_HELD",
        ("operator",),
        {"seq": 1},
    ),
    ClientAction("listen to usage", "listen", "beamline.usage.v1.metered", ()),
    ClientAction(
        "look at the stream of usage",
        "ask",
        f"{_API}STREAM.INFO.ROUTER_USAGE",
        ("router", "operator", "console", "lake"),
    ),
    ClientAction(
        "read one usage event",
        "ask",
        f"{_API}STREAM.MSG.GET.ROUTER_USAGE",
        ("router", "operator", "lake"),
        {"last_by_subj": ">"},
    ),
    ClientAction(
        "read usage, a batch",
        "ask",
        f"{_API}DIRECT.GET.ROUTER_USAGE",
        ("operator", "lake"),
        {"seq": 1, "batch": 10},
    ),
    ClientAction(
        "read usage by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_USAGE",
        ("operator", "lake"),
        _consumer("ROUTER_USAGE"),
    ),
    ClientAction(
        "have the server deliver usage to another role's subject",
        "bind",
        f"{_API}CONSUMER.CREATE.ROUTER_USAGE",
        # no server holds this apart from the line above: the lake has an account of its own
        ("operator",),
        _consumer("ROUTER_USAGE", deliver_subject="scratch.elsewhere"),
    ),
    # violations of the header contract
    ClientAction(
        "tell of a violation",
        "ask",
        "beamline.router.v1.contract.violation.decide",
        ("router",),
        {},
    ),
    ClientAction(
        "hear violations",
        "listen",
        "beamline.router.v1.contract.violation.decide",
        ("router", "operator"),
    ),
    ClientAction(
        "read violations by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_VIOLATIONS.read-scratch",
        ("operator", "console"),
        _consumer("ROUTER_VIOLATIONS", name="read-scratch"),
    ),
    # dead letters
    ClientAction("write a dead letter", "ask", "beamline.router.v1.decide.dlq", ("router",), {}),
    ClientAction(
        "read a dead letter",
        "ask",
        f"{_API}STREAM.MSG.GET.ROUTER_DLQ",
        ("router", "operator", "console"),
        {"last_by_subj": ">"},
    ),
    ClientAction(
        "take out a dead letter",
        "ask",
        f"{_API}STREAM.MSG.DELETE.ROUTER_DLQ",
        ("operator",),
        {"seq": 1},
    ),
    # policies and what operators ask
    ClientAction(
        "put a policy",
        "ask",
        "beamline.router.v1.admin.put_policy",
        ("operator",),
        {"tenant_id": "acme", "policy_id": "new", "policy": _POLICY},
    ),
    ClientAction(
        "write the bucket of policies",
        "tell",
        "$KV.ROUTER_POLICIES.scratch",
        ("router", "operator"),
    ),
    ClientAction(
        "write the bucket of breakers", "tell", "$KV.ROUTER_BREAKERS.scratch", ("router",)
    ),
    ClientAction("write the bucket of figures", "tell", "$KV.ROUTER_FIGURES.scratch", ("router",)),
    ClientAction(
        "write what was learned of the tokens of texts",
        "tell",
        "$KV.ROUTER_RATIOS.scratch",
        ("router",),
    ),
    ClientAction(
        "write the bucket of canaries", "tell", "$KV.ROUTER_CANARIES.scratch", ("router",)
    ),
    ClientAction(
        "write the bucket of budgets", "tell", "$KV.ROUTER_BUDGETS.scratch", ("operator",)
    ),
    ClientAction("write the bucket of prices", "tell", "$KV.ROUTER_PRICES.scratch", ("operator",)),
    ClientAction("write the bucket of keys", "tell", "$KV.ROUTER_KEYS.scratch", ("operator",)),
    ClientAction(
        "listen to the bucket of keys",
        "ask",
        f"{_API}CONSUMER.CREATE.KV_ROUTER_KEYS.spy",
        ("http_gateway", "operator", "console"),
        _consumer("KV_ROUTER_KEYS", name="spy"),
    ),
    ClientAction(
        "read the hash of a key",
        "ask",
        f"{_API}STREAM.MSG.GET.KV_ROUTER_KEYS",
        ("http_gateway", "operator", "console"),
        {"last_by_subj": ">"},
    ),
    ClientAction(
        "write an answer that gateways keep",
        "tell",
        "$KV.ROUTER_GATEWAY_ANSWERS.scratch",
        ("http_gateway",),
    ),
    ClientAction(
        "read an answer that gateways keep",
        "ask",
        f"{_API}STREAM.MSG.GET.KV_ROUTER_GATEWAY_ANSWERS",
        ("http_gateway", "operator"),
        {"last_by_subj": ">"},
    ),
    ClientAction(
        "write what is spent of budgets", "tell", "$KV.ROUTER_BUDGETS_SPENT.scratch", ("router",)
    ),
    ClientAction(
        "write the tokens of rate limits", "tell", "$KV.ROUTER_RATE_LIMITS.scratch", ("router",)
    ),
    ClientAction(
        "record an attempt to invoke a provider",
        "tell",
        "$KV.ROUTER_INVOCATIONS.scratch",
        ("router",),
    ),
    ClientAction(
        "delete the record of an attempt to invoke a provider",
        "ask",
        f"{_API}STREAM.MSG.DELETE.KV_ROUTER_INVOCATIONS",
        ("router",),
        {"seq": 1},
    ),
    ClientAction(
        "listen to the bucket of policies",
        "ask",
        f"{_API}CONSUMER.CREATE.KV_ROUTER_POLICIES.spy",
        ("http_gateway", "router", "operator", "console"),
        _consumer("KV_ROUTER_POLICIES", name="spy"),
    ),
    ClientAction("ask a router for its figures", "ask", "$SRV.STATS.router-admin", ("operator",)),
    ClientAction("raise an alert", "tell", "beamline.alert.v1.warning", ("router",)),
    ClientAction(
        "leave an audit event of a command",
        "ask",
        "beamline.router.v1.audit.cli",
        ("operator",),
        {},
    ),
    ClientAction(
        "leave an audit event of a console",
        "ask",
        "beamline.router.v1.audit.console",
        ("operator",),
        {},
    ),
    ClientAction(
        "leave an audit event of a router",
        "ask",
        "beamline.router.v1.audit.admin",
        ("router", "operator"),
        {},
    ),
    ClientAction(
        "read audit events",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_AUDIT.read-audit",
        ("operator",),
        _consumer("ROUTER_AUDIT", name="read-audit"),
    ),
    ClientAction(
        "take out an audit event", "ask", f"{_API}STREAM.MSG.DELETE.ROUTER_AUDIT", (), {"seq": 1}
    ),
    ClientAction(
        "hear alerts",
        "listen",
        "beamline.alert.v1.*",
        ("operator", "console"),
        told="beamline.alert.v1.info",
    ),
    # streams
    ClientAction("make a stream", "ask", f"{_API}STREAM.CREATE.SCRATCH", ("operator",), _SCRATCH),
    ClientAction("change a stream", "ask", f"{_API}STREAM.UPDATE.SCRATCH", ("operator",), _SCRATCH),
    ClientAction("ask whether another place answers", "tell", "$JS.hub.API.INFO", ("operator",)),
    ClientAction("list the streams", "ask", f"{_API}STREAM.LIST", ("operator",)),
    ClientAction(
        "take a backup of a stream",
        "ask",
        f"{_API}STREAM.SNAPSHOT.ROUTER_USAGE",
        ("operator",),
        {"deliver_subject": "_INBOX_operator.backup", "no_consumers": True},
    ),
    ClientAction("purge the stream of usage", "ask", f"{_API}STREAM.PURGE.ROUTER_USAGE", ()),
    ClientAction("delete a stream", "ask", f"{_API}STREAM.DELETE.ROUTER_USAGE", ()),
    ClientAction(
        "spy on decide requests by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_DECIDE.spy",
        ("operator",),
        _consumer("ROUTER_DECIDE", name="spy"),
    ),
    ClientAction(
        "read ahead of the router's durable",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_DECIDE.router-read-ahead",
        ("router", "operator"),
        _consumer("ROUTER_DECIDE", name="router-read-ahead"),
    ),
    ClientAction(
        "remove the router's durable",
        "ask",
        f"{_API}CONSUMER.DELETE.ROUTER_DECIDE.router-decide-consumer",
        (),
    ),
    ClientAction("ask the server about itself", "ask", "$SYS.REQ.SERVER.PING", ()),
)
