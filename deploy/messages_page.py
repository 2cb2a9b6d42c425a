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
writes JSON Schema 2020-12, one file a message; `router contract check FILE` says what a reader would say of a message, field by field.

`null` is absent, and so is an empty string where an id is meant. Ignore fields that you do not know, as the router does: new ones may come.

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
