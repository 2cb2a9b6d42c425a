"""`router extension call`: one call by hand, through the registry's route, with the request that a router would send."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from router.cli import ends
from router.cli.extension.asking import asked
from router.cli.extension.store import ExtensionId, store_of
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, printable
from router.cli.session import jetstream_of, settings_of
from router.cli.typed import message_of, object_of

if TYPE_CHECKING:
    from router.config import Settings
    from router.extensions import Route

ERROR, ERROR_CODE = "Nats-Service-Error", "Nats-Service-Error-Code"


def call(
    extension_id: ExtensionId,
    *,
    payload: Annotated[str, typer.Option(metavar="JSON|TEXT|@FILE", help="The message's payload; a provider's prompt.")],
    tenant: Annotated[str, typer.Option(help="On whose behalf.")] = "acme",
    policy: Annotated[str, typer.Option(help="The policy that it is called for.")] = "default",
    type_: Annotated[str, typer.Option("--type", help="The message's type.")] = "chat",
    metadata: Annotated[str, typer.Option(metavar="JSON|@FILE", help="The routing context.")] = "{}",
    timeout_ms: Annotated[int | None, typer.Option(help="Instead of the registry's.", min=10)] = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Call an extension once, and print what it answers and how long it took. No retry, no breaker, no policy.

    Exit status: 0 it answered, 1 it answered with an error or is not registered, 3 it did not answer.

    Example:  router extension call normalize_text --payload '"  Hello  "'
    """
    context = object_of(metadata, "--metadata")
    about = {"tenant_id": tenant, "policy_id": policy, "type": type_, "metadata": context, "timeout_ms": timeout_ms}
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_call(settings, extension_id, message_of(payload), about, as_json))


async def _call(settings: Settings, extension_id: str, payload: object, about: Mapping[str, Any], as_json: bool) -> int:
    route, trace_id = await _route(settings, extension_id, about), str(uuid.uuid4())
    headers = {"trace_id": trace_id, "tenant_id": about["tenant_id"]}
    body = orjson.dumps(_request(route, trace_id, payload, about))
    async with jetstream_of(settings) as jetstream:
        began = time.perf_counter()
        timeout_s = (about["timeout_ms"] or route.timeout_ms) / 1000
        answer = await asked(jetstream.connection, route.subject, body, headers, timeout_s=timeout_s)
        latency_ms = (time.perf_counter() - began) * 1000
    return _tell(route, answer.data, answer.headers or {}, latency_ms, as_json)


async def _route(settings: Settings, extension_id: str, about: Mapping[str, Any]) -> Route:
    from router.app.extension_store import ExtensionNotFound
    from router.extensions import ExtensionRegistry

    async with store_of(settings) as store:
        entry = (await store.get(extension_id)).entry
    who = {name: about[name] for name in ("tenant_id", "policy_id")}
    route = ExtensionRegistry([entry]).find(extension_id, kind=entry.kind, environment=settings.extensions.environment, **who)
    if route is None:
        raise ExtensionNotFound(f"no version of {extension_id!r} is enabled for {who['tenant_id']}/{who['policy_id']}")
    return route


def _request(route: Route, trace_id: str, payload: object, about: Mapping[str, Any]) -> dict[str, object]:
    """Both shapes of docs/extensions.md#calls."""
    told = {"trace_id": trace_id, "tenant_id": about["tenant_id"]}
    context = {**about["metadata"], "policy_id": about["policy_id"]}
    if route.kind == "provider":
        prompt = payload if isinstance(payload, str) else orjson.dumps(payload).decode()
        return {**told, "provider_id": route.extension_id, "prompt": prompt, "parameters": {}, "context": context}
    message = {"message_id": trace_id, "message_type": about["type"], "payload": payload, "metadata": {}}
    return {**told, "payload": message, "metadata": context, "config": dict(route.config)}


def _tell(route: Route, data: bytes, headers: Mapping[str, str], latency_ms: float, as_json: bool) -> int:
    code, error = headers.get(ERROR_CODE), headers.get(ERROR)
    answer = _json(data.decode("utf-8", "replace"))
    if as_json:
        fields = {
            "extension_id": route.extension_id,
            "subject": route.subject,
            "version": route.version,
            "latency_ms": round(latency_ms, 3),
        }
        print_json({**fields, **({"error_code": code, "error": error} if code else {"answer": answer})})
        return ends.NO if code else ends.OK
    if code:
        ends.complain(printable(f"extension_error: {route.subject} answered {code}: {error}"))
        return ends.NO
    print_json(answer)
    typer.echo(f"{route.subject}, {latency_ms:.1f} ms", err=True)
    return ends.OK


def _json(text: str) -> Any:
    """JSON, or the text itself."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
