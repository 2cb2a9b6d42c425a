"""The router's own services, for HTTP clients: what one asks is its key's tenant's, whatever it
says.

    GET  /api/v1/routes/decide/{id}             the decision of an earlier request
    POST /api/v1/messages                       a message into the system, and its acknowledgement
    GET  /api/v1/extensions/health, …/breakers  how extensions fare; of breakers the tenant's own
    POST /api/v1/policies/{policy}/dry-run      what would be decided; no extension is called
    GET  /api/v1/policies/{policy}/complexity   how dear a pipeline is

They are asked over NATS (docs/reference/operators.md#admin-services), with `admin.api_key` where
one is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import nats.errors
import orjson
from starlette.requests import Request
from starlette.responses import Response

from router.config import Settings
from router.contracts.decision import INTERNAL, INVALID_REQUEST, UNAUTHORIZED
from router.contracts.ingress import INGRESS_SUBJECT
from router.core.ids import is_opaque, is_scoped
from router.delivery.wire.connection import Connection
from router.gateway.application import Endpoint, GatewayPages, read_text, require_tenant
from router.gateway.doorkeeper import choose_usual_policy, require_policy
from router.gateway.keys.model.api_key import ApiKey
from router.gateway.model import refusal
from router.gateway.model.apis import DEFAULT_POLICY, Fields, read_fields
from router.gateway.model.refusal import GatewayRefusal

Json = dict[str, Any]

DECISIONS = "beamline.router.v1.get_decision"
ADMIN = "beamline.router.v1.admin."
TIMEOUT_S = 10.0
REJECTED = {"rejected": 400, "error": 503}  # of a message; any other was accepted


class RouterServices:
    """Over the connection of a gateway."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection = connection
        key = settings.admin.api_key
        self._headers = None if key is None else {"api_key": key.get_secret_value()}

    async def find_decision(self, key: ApiKey, request_id: str) -> Json:
        if not is_opaque(request_id):
            raise GatewayRefusal(refusal.NOT_FOUND, "There is no such request")
        return await self._ask(DECISIONS, {"tenant_id": key.tenant_id, "request_id": request_id})

    async def send_message(self, key: ApiKey, fields: Fields) -> tuple[int, Json]:
        """The status, and the IngressAck."""
        body = msgspec.json.encode({**fields, "tenant_id": key.tenant_id})
        headers = {"tenant_id": key.tenant_id, "version": "1"}
        ack = await self._request(INGRESS_SUBJECT, body, headers)
        return REJECTED.get(str(ack.get("status")), 202), ack

    async def read_health(self, _: ApiKey) -> Json:
        return await self._ask(f"{ADMIN}get_extension_health", {})

    async def read_breakers(self, key: ApiKey) -> Json:
        """Of providers those of the tenant, and no other tenant is named."""
        told = await self._ask(f"{ADMIN}get_circuit_breaker_states", {})
        states = told.get("states", {})
        mine = {
            name: state
            for name, state in told.get("providers", {}).items()
            if state.get("tenant_id") == key.tenant_id
        }
        shown = {name: _hide_tenants(state, key.tenant_id) for name, state in states.items()}
        return {**told, "states": shown, "providers": mine}

    async def try_policy(self, key: ApiKey, policy_id: str, fields: Fields) -> Json:
        asked: Json = {name: fields[name] for name in ("payload", "context") if name in fields}
        named = {"tenant_id": key.tenant_id, "policy_id": policy_id}
        return await self._ask(f"{ADMIN}dry_run_pipeline", {**asked, **named})

    async def read_complexity(self, key: ApiKey, policy_id: str) -> Json:
        named = {"tenant_id": key.tenant_id, "policy_id": policy_id}
        return await self._ask(f"{ADMIN}get_pipeline_complexity", named)

    async def _ask(self, subject: str, body: Mapping[str, object]) -> Json:
        """What the service answers. Raises GatewayRefusal."""
        told = await self._request(subject, msgspec.json.encode(body), self._headers)
        if told.get("ok", True) is True:
            return told
        error = told.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        # the gateway's own key of the services is wrong, and no fault of its client's
        if not isinstance(code, str) or code == UNAUTHORIZED:
            raise GatewayRefusal(INTERNAL, "The router's services refuse this gateway")
        text = str(error.get("message", "")) if isinstance(error, dict) else ""
        raise GatewayRefusal(code, text)

    async def _request(self, subject: str, body: bytes, headers: Mapping[str, str] | None) -> Json:
        given = dict(headers) if headers is not None else None
        try:
            answer = await self._connection.request(subject, body, timeout=TIMEOUT_S, headers=given)
            told = orjson.loads(answer.data)
        except (nats.errors.Error, OSError) as exc:  # TimeoutError is an OSError
            raise GatewayRefusal(
                refusal.NO_ROUTER, "No router answers", retry_after_ms=1_000
            ) from exc
        except orjson.JSONDecodeError as exc:
            raise GatewayRefusal(INTERNAL, "The router's answer is no JSON") from exc
        if not isinstance(told, dict):
            raise GatewayRefusal(INTERNAL, "The router's answer is no object")
        return told


# -- Their addresses.


class ServicePages:
    """`pages`: which admit a request, and read its body."""

    def __init__(self, services: RouterServices, pages: GatewayPages) -> None:
        self._services = services
        self._pages = pages

    async def show_decision(self, request: Request) -> Response:
        key = self._pages.admit(request)
        return _answer(await self._services.find_decision(key, request.path_params["id"]))

    async def take_message(self, request: Request) -> Response:
        key = self._pages.admit(request)
        with self._pages.hold_slot(key):
            fields = read_fields(await self._pages.read_body(request))
            policy_id = read_text(fields, "policy_id") or choose_usual_policy(key, DEFAULT_POLICY)
            require_policy(key, policy_id)
            require_tenant(fields, key.tenant_id)
            named = {**fields, "policy_id": msgspec.Raw(msgspec.json.encode(policy_id))}
            status, ack = await self._services.send_message(key, named)
            return _answer(ack, status)

    async def show_health(self, request: Request) -> Response:
        return _answer(await self._services.read_health(self._pages.admit(request)))

    async def show_breakers(self, request: Request) -> Response:
        return _answer(await self._services.read_breakers(self._pages.admit(request)))

    async def try_policy(self, request: Request) -> Response:
        key, policy_id = self._admit_policy(request)
        with self._pages.hold_slot(key):
            fields = read_fields(await self._pages.read_body(request))
            return _answer(await self._services.try_policy(key, policy_id, fields))

    async def show_complexity(self, request: Request) -> Response:
        return _answer(await self._services.read_complexity(*self._admit_policy(request)))

    def _admit_policy(self, request: Request) -> tuple[ApiKey, str]:
        key, policy_id = self._pages.admit(request), request.path_params["policy"]
        if not is_scoped(policy_id):
            raise GatewayRefusal(INVALID_REQUEST, "There can be no such policy", param="policy")
        require_policy(key, policy_id)
        return key, policy_id

    def list_routes(self) -> list[tuple[str, str, Endpoint]]:
        """Method, path and endpoint of each."""
        return [
            ("GET", "/api/v1/routes/decide/{id}", self.show_decision),
            ("POST", "/api/v1/messages", self.take_message),
            ("GET", "/api/v1/extensions/health", self.show_health),
            ("GET", "/api/v1/extensions/breakers", self.show_breakers),
            ("POST", "/api/v1/policies/{policy}/dry-run", self.try_policy),
            ("GET", "/api/v1/policies/{policy}/complexity", self.show_complexity),
        ]


def _answer(told: Json, status: int = 200) -> Response:
    return Response(orjson.dumps(told), status, media_type="application/json")


def _hide_tenants(state: Json, tenant_id: str) -> Json:
    told = state.get("not_closed")
    mine = {tenant_id: told[tenant_id]} if isinstance(told, dict) and tenant_id in told else {}
    shown = {name: value for name, value in state.items() if name != "not_closed"}
    return {**shown, "not_closed": mine} if mine else shown
