"""What a client may try on the router's server, and which role may do it: the table behind deploy/nats/PERMISSIONS.md.

A new subject, stream or service of the router's is a new line here, and one in deploy/nats/accounts.conf.
"""

from collections.abc import Mapping

from msgspec import Struct

from tests.support.extension_author import a_request
from tests.support.requests import a_body


class Deed(Struct, frozen=True):
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
    return {"stream_name": stream, "config": {"ack_policy": "none", "mem_storage": True, "inactive_threshold": 10**9, **config}}


DEEDS = (
    # requests and answers
    Deed("ask for a decision", "ask", "beamline.router.v1.decide", ("gateway", "operator"), a_body()),
    Deed("ask for one by tenant (partitions)", "tell", "beamline.router.v1.decide.by.acme", ("gateway",), a_body()),
    Deed("listen to the requests of all clients", "listen", "beamline.router.v1.decide", ("router",)),
    Deed("listen to answers without an inbox", "listen", "beamline.router.v1.decide.reply", ("gateway", "operator")),
    Deed("listen to a gateway's inboxes", "listen", "_INBOX_gateway.one.>", ("gateway",), told="_INBOX_gateway.one.x"),
    Deed("listen to all gateways' inboxes", "listen", "_INBOX_gateway.>", (), told="_INBOX_gateway.one.x"),
    Deed("listen to all workers' inboxes", "listen", "_INBOX_worker.>", (), told="_INBOX_worker.one.x"),
    Deed("listen to the router's inboxes", "listen", "_INBOX_router.>", ("router",), told="_INBOX_router.x"),
    Deed("listen to everything", "listen", ">", (), told="anything"),
    Deed("answer a gateway unasked", "tell", "_INBOX_gateway.one.x", ("router",)),
    Deed("answer the router unasked", "tell", "_INBOX_router.x", ("router",)),
    Deed("invoke a provider through the router", "ask", "beamline.provider.v1.invoke", ("gateway", "worker", "operator"), {}),
    # extensions
    Deed("call an extension", "ask", "beamline.ext.validate.pii_guard.v1", ("router", "operator"), a_request()),
    Deed("answer calls of pii_guard", "listen", "beamline.ext.validate.pii_guard.v2", ("author",)),
    Deed("answer calls of another author's", "listen", "beamline.ext.pre.normalize_text.v1", ()),
    Deed(
        "register an extension",
        "ask",
        "beamline.router.v1.admin.put_extension",
        ("operator",),
        {"id": "pii_guard", "type": "validator", "subject": "beamline.ext.validate.pii_guard.v1"},
    ),
    # work
    Deed("take a decide request", "ask", f"{_API}CONSUMER.MSG.NEXT.ROUTER_DECIDE.router-decide-consumer", ("router",), _PULL),
    Deed("take a result", "ask", f"{_API}CONSUMER.MSG.NEXT.ROUTER_RESULTS.router-results", ("router",), _PULL),
    Deed("take an assignment", "ask", f"{_API}CONSUMER.MSG.NEXT.ROUTER_ASSIGNMENTS.caf-worker", ("worker",), _PULL),
    Deed("settle a decide request", "tell", "$JS.ACK.ROUTER_DECIDE.router-decide-consumer.1.9999.1.1.0", ("router",)),
    Deed("settle an assignment", "tell", "$JS.ACK.ROUTER_ASSIGNMENTS.caf-worker.1.9999.1.1.0", ("worker",)),
    Deed("write down a start of a decide request", "ask", "$KV.ROUTER_ATTEMPTS.ROUTER_DECIDE.router-decide-consumer.0.0", ("router",), 1),
    Deed("write down a start of an assignment", "ask", "$KV.ROUTER_ATTEMPTS.ROUTER_ASSIGNMENTS.caf-worker.0.0", ("worker",), 1),
    Deed("push an assignment", "ask", "caf.exec.assign.v1", ("router", "operator"), {}),
    Deed("see who takes assignments", "ask", f"{_API}CONSUMER.LIST.ROUTER_ASSIGNMENTS", ("router", "operator")),
    Deed("remove assignments that are done", "ask", f"{_API}STREAM.PURGE.ROUTER_ASSIGNMENTS", ("router",), {"seq": 1}),
    Deed("remove one assignment that is done", "ask", f"{_API}STREAM.MSG.DELETE.ROUTER_ASSIGNMENTS", ("router",), {"seq": 1}),
    Deed(
        "read assignments by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_ASSIGNMENTS.read-scratch",
        ("router", "operator"),
        _consumer("ROUTER_ASSIGNMENTS", name="read-scratch"),
    ),
    Deed("tell a result", "ask", "caf.exec.result.v1", ("worker", "operator"), {}),
    Deed("listen to results", "listen", "caf.exec.result.v1", ()),
    Deed("acknowledge an assignment", "ask", "caf.exec.assign.v1.ack", ("worker", "operator"), {}),
    Deed("give an assignment up", "ask", "caf.exec.dlq.v1", ("worker",), {}),
    Deed("tell of an assignment that cannot be read", "ask", "caf.deadletter.v1", ("worker",), {}),
    Deed("say that a worker is alive", "tell", "caf.worker.heartbeat.v1", ("worker",)),
    Deed("hear which workers are alive", "listen", "caf.worker.heartbeat.v1", ("router", "operator")),
    # usage
    Deed("meter usage", "ask", "beamline.usage.v1.metered", ("router",), {}),
    Deed("listen to usage", "listen", "beamline.usage.v1.metered", ()),
    Deed("look at the stream of usage", "ask", f"{_API}STREAM.INFO.ROUTER_USAGE", ("router", "operator", "lake")),
    Deed("read usage, a batch", "ask", f"{_API}DIRECT.GET.ROUTER_USAGE", ("operator", "lake"), {"seq": 1, "batch": 10}),
    Deed(
        "read usage by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_USAGE",
        ("operator", "lake"),
        _consumer("ROUTER_USAGE"),
    ),
    Deed(
        "have the server deliver usage to another role's subject",
        "bind",
        f"{_API}CONSUMER.CREATE.ROUTER_USAGE",
        ("operator",),  # no server holds this apart from the line above: the lake has an account of its own
        _consumer("ROUTER_USAGE", deliver_subject="scratch.elsewhere"),
    ),
    # dead letters
    Deed("write a dead letter", "ask", "beamline.router.v1.decide.dlq", ("router",), {}),
    Deed("read a dead letter", "ask", f"{_API}STREAM.MSG.GET.ROUTER_DLQ", ("router", "operator"), {"last_by_subj": ">"}),
    Deed("take out a dead letter", "ask", f"{_API}STREAM.MSG.DELETE.ROUTER_DLQ", ("operator",), {"seq": 1}),
    # policies and what operators ask
    Deed(
        "put a policy",
        "ask",
        "beamline.router.v1.admin.put_policy",
        ("operator",),
        {"tenant_id": "acme", "policy_id": "new", "policy": _POLICY},
    ),
    Deed("write the bucket of policies", "tell", "$KV.ROUTER_POLICIES.scratch", ("router", "operator")),
    Deed("write the bucket of breakers", "tell", "$KV.ROUTER_BREAKERS.scratch", ("router",)),
    Deed(
        "listen to the bucket of policies",
        "ask",
        f"{_API}CONSUMER.CREATE.KV_ROUTER_POLICIES.spy",
        ("router", "operator"),
        _consumer("KV_ROUTER_POLICIES", name="spy"),
    ),
    Deed("ask a router for its figures", "ask", "$SRV.STATS.router-admin", ("operator",)),
    Deed("raise an alert", "tell", "beamline.alert.v1.warning", ("router",)),
    Deed("hear alerts", "listen", "beamline.alert.v1.*", ("operator",), told="beamline.alert.v1.info"),
    # streams
    Deed("make a stream", "ask", f"{_API}STREAM.CREATE.SCRATCH", ("operator",), _SCRATCH),
    Deed("change a stream", "ask", f"{_API}STREAM.UPDATE.SCRATCH", ("operator",), _SCRATCH),
    Deed("list the streams", "ask", f"{_API}STREAM.LIST", ("operator",)),
    Deed(
        "take a backup of a stream",
        "ask",
        f"{_API}STREAM.SNAPSHOT.ROUTER_USAGE",
        ("operator",),
        {"deliver_subject": "_INBOX_operator.backup", "no_consumers": True},
    ),
    Deed("purge a stream", "ask", f"{_API}STREAM.PURGE.ROUTER_USAGE", ()),
    Deed("delete a stream", "ask", f"{_API}STREAM.DELETE.ROUTER_USAGE", ()),
    Deed(
        "spy on decide requests by a consumer of one's own",
        "ask",
        f"{_API}CONSUMER.CREATE.ROUTER_DECIDE.spy",
        ("operator",),
        _consumer("ROUTER_DECIDE", name="spy"),
    ),
    Deed("remove the router's durable", "ask", f"{_API}CONSUMER.DELETE.ROUTER_DECIDE.router-decide-consumer", ()),
    Deed("ask the server about itself", "ask", "$SYS.REQ.SERVER.PING", ()),
)
