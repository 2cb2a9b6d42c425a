"""The place of a wrong field as its sender wrote it: readers name the RouteRequest's place, a requester may use another form.

task form     message.message_type  ->  task.type         message.tenant_id  ->  tenant_id
flat          message.message_type  ->  message_type
beside        message.tenant_id     ->  tenant_id, where it stands beside `message` and so is what was read
"""

from __future__ import annotations

from router.contracts.malformed import Malformed
from router.decide.model.fields import Object

_MESSAGE = "message."
_OF_TASK = {"message_type": "type", "payload": "payload", "payload_ref": "payload_ref"}
_EITHER = ("request_id", "idempotency_key")  # named without `message`, and read there too
_OF_CONTENT = frozenset({*_OF_TASK, "metadata"})  # read from `message` where there is one, never from beside it


def translate_place(refused: Malformed, body: Object) -> Malformed:
    """The same error with its place in the form of this request."""
    field = refused.field
    place = _place(field, body) if field is not None else None
    if place is None or place == field:
        return refused
    text = str(refused)
    if place.startswith("task."):  # a name that the sender did not write
        text = text.replace(f" field: {(field or '').removeprefix(_MESSAGE)}", f" field: {place}", 1)
    return Malformed(refused.code, text, refused.stage, place)


def _place(field: str, body: Object) -> str:
    inner, task = body.get("message"), body.get("task")
    name = field.removeprefix(_MESSAGE)
    if not field.startswith(_MESSAGE):
        is_within = field in _EITHER and isinstance(inner, dict) and field in inner and field not in body
        return _MESSAGE + field if is_within else field
    if isinstance(task, dict) and name in _OF_TASK and (not isinstance(inner, dict) or (_OF_TASK[name] in task and name not in inner)):
        return f"task.{_OF_TASK[name]}"
    if isinstance(inner, dict):
        return name if name not in _OF_CONTENT and body.get(name) not in (None, "") else field
    return name
