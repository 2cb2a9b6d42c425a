"""The page of all messages, made from their shapes: `python deploy/messages_page.py > docs/messages.md`."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from router.contracts.shapes import MessageShape, build_shapes
from router.contracts.shapes.fields import list_fields
from router.contracts.shapes.parts import PARTS, Schema

HEAD = """# Messages: what each subject carries, for authors in any language

Made by `python deploy/messages_page.py`; a test keeps it equal to the code, and another one reads every example below with the
reader of its message. [contracts.md](contracts.md) has the rules behind the shapes. The same as files: `router contract schemas DIR`
writes JSON Schema 2020-12, one file a message, and the .proto files; `router contract asyncapi` describes every subject in one document; a
running router serves both below `/contract/` on its HTTP port. `router contract check FILE` says what a reader would say of a message,
field by field. `router contract diff OLD NEW` says what a newer contract breaks.

`null` is absent, and so is an empty string where an id is meant. Ignore fields that you do not know, as the router does: new ones may come.

<a id="authors"></a>
## What you receive, and what you send

| you write | you receive | you send |
|---|---|---|
| a client | [answer](#answer), on the reply subject of your request | [decide](#decide) on `beamline.router.v1.decide` |
| a worker | [assignment](#assignment) on `caf.exec.assign.v1`, from a durable that all workers of a kind share | [ack](#ack) on `caf.exec.assign.v1.ack`, [result](#result) on `caf.exec.result.v1`, [heartbeat](#heartbeat) on `caf.worker.heartbeat.v1` |
| a pre- or post-processor | [extension-request](#extension-request) on `beamline.ext.pre.{id}.{version}` or `beamline.ext.post.{id}.{version}` | [extension-message](#extension-message) to the reply subject |
| a validator | [extension-request](#extension-request) on `beamline.ext.validate.{id}.{version}` | [extension-verdict](#extension-verdict) to the reply subject |
| a provider | [provider-call](#provider-call) on `beamline.provider.{id}.{version}` | [provider-answer](#provider-answer) to the reply subject, or [chunks](#chunk) where the request has `Router-Stream: true` |
| a caller of providers | [provider-response](#provider-response), or [chunks](#chunk) of a stream | [provider-request](#provider-request) on `beamline.provider.v1.invoke` or `….invoke.stream` |
| a gateway of messages | [ingress-ack](#ingress-ack) | [ingress](#ingress) on `beamline.ingress.v1.message` |
| a reader of costs | [usage](#usage) on `beamline.usage.v1.metered` | |
| a tool for operators | [alert](#alert) on `beamline.alert.v1.{severity}`, [dead-letter](#dead-letter) on `{subject}.dlq` | |
| a program on the bus | [envelope](#envelope) | [envelope](#envelope) |

Extensions and providers listen in a queue group and answer once; an error is an answer with the headers `Nats-Service-Error-Code` and
`Nats-Service-Error` ([more](../router/sdk/samples/extensions/CONTRACT.md)). `Router-Deadline-Ms` says how long the router still waits. A worker acks
the delivery of its assignment when its result is stored ([more](../router/sdk/samples/workers/README.md)).

<a id="headers"></a>
## Headers

A message that carries any of `trace_id`, `tenant_id`, `version`, `traceparent`, `cp_phase` keeps all rules of
[this table](contracts.md#header-contract); one that carries none of them breaks no rule. The smallest set that keeps them:

```
Nats-Msg-Id: 3f1c0d1e-9d1b-4f5a-8f0e-0a3a5b8f2c11
tenant_id: acme
trace_id: 4bf92f3577b34da6a3ce929d0e0e4736
version: 1
```

<a id="limits"></a>
## What the schemas cannot say

A message that its schema takes is taken by its reader, and a message that its schema refuses is refused, but for these:

* A whole number is written without a decimal point: JSON Schema takes `1.0` for an integer, a reader of integers refuses it.
* A payload is at most 1 MiB (`max_payload_bytes`), nested at most 64 deep (`max_depth`), metadata and parameters at most 64 KiB, an
  integer at most 64 bits; of two equal keys the last one counts.
* A result's `timestamp` lies near the time at which its stream stored it (`results.max_timestamp_age_ms`,
  `results.max_timestamp_ahead_ms`).
* A reader of times knows more forms of ISO 8601 than the one in UTC that the schemas take.
* A header goes before the field of its name (`tenant_id`, `trace_id`, `version`, `Nats-Msg-Id`): the field is then not looked at.
* A provider's answer names no other provider in `provider_id`.
* Whether a tenant is served, a policy exists and an assignment is known is no matter of shape.
* Python's `re` lets `$` match before a line break at the end of a text; ECMA-262, which JSON Schema names, does not.
"""


def build_page() -> str:
    return HEAD + "".join(map(_build_section, build_shapes().values()))


def _build_section(shape: MessageShape) -> str:
    page, anchor = shape.page.removeprefix("docs/"), shape.name
    examples = "\n".join(f"```json\n{orjson.dumps(example, option=orjson.OPT_INDENT_2).decode()}\n```\n" for example in shape.examples)
    proto = f" In protobuf: `{shape.proto}`." if shape.proto else ""
    rows = "".join(f"| `{place}` | {_describe(field)} |\n" for place, field in list_fields(shape.body).items())
    head = f'\n<a id="{anchor}"></a>\n## {shape.name}: {shape.title}\n\n{shape.text}{proto} Its rules: [{page}]({page}).\n'
    return f"{head}\n{examples}\n| field | is |\n|---|---|\n{rows}"


def _describe(field: Schema) -> str:
    """The words of a field, or else its kind; and the words that are legal."""
    part = PARTS.get(str(field.get("$ref", "")).rpartition("/")[2], {})
    words = [str(text) for text in (field.get("description"), part.get("description")) if text]
    legal = [orjson.dumps(value).decode() for value in field.get("enum", [field["const"]] if "const" in field else ())]
    if legal:
        words.append(f"one of {', '.join(f'`{value}`' for value in legal)}" if len(legal) > 1 else f"`{legal[0]}`")
    return "; ".join(words).replace("|", "\\|") or " or ".join(_list_types(field))


def _list_types(field: Schema) -> Iterator[str]:
    kinds = field.get("type", "any value")
    yield from kinds if isinstance(kinds, list) else [kinds]


if __name__ == "__main__":
    print(build_page(), end="")
