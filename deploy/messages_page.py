"""The page of messages, made of their shapes and messages_head.txt: `python deploy/messages_page.py
> docs/reference/messages.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from router.contracts.shapes.message_shape import list_fields
from router.contracts.shapes.parts import PARTS, Schema
from router.operate.catalogue import MessageShape, build_shapes

HEAD = Path(__file__).with_name("messages_head.txt").read_text("utf-8")


def build_page() -> str:
    return HEAD + "".join(map(_build_section, build_shapes().values()))


def _build_section(shape: MessageShape) -> str:
    page, anchor = shape.page.removeprefix("docs/reference/"), shape.name
    examples = "\n".join(
        f"```json\n{orjson.dumps(example, option=orjson.OPT_INDENT_2).decode()}\n```\n"
        for example in shape.examples
    )
    proto = f" In protobuf: `{shape.proto}`." if shape.proto else ""
    rows = "".join(
        f"| `{place}` | {_describe(field)} |\n" for place, field in list_fields(shape.body).items()
    )
    head = (
        f'\n<a id="{anchor}"></a>\n## {shape.name}: {shape.title}\n\n'
        f"{shape.text}{proto} Its rules: [{page}]({page}).\n"
    )
    return f"{head}\n{examples}\n| field | is |\n|---|---|\n{rows}"


def _describe(field: Schema) -> str:
    """The words of a field, or else its kind; and the words that are legal."""
    part = PARTS.get(str(field.get("$ref", "")).rpartition("/")[2], {})
    words = [str(text) for text in (field.get("description"), part.get("description")) if text]
    legal = [
        orjson.dumps(value).decode()
        for value in field.get("enum", [field["const"]] if "const" in field else ())
    ]
    if legal:
        words.append(
            f"one of {', '.join(f'`{value}`' for value in legal)}"
            if len(legal) > 1
            else f"`{legal[0]}`"
        )
    return "; ".join(words).replace("|", "\\|") or " or ".join(_list_types(field))


def _list_types(field: Schema) -> Iterator[str]:
    kinds = field.get("type", "any value")
    yield from kinds if isinstance(kinds, list) else [kinds]


if __name__ == "__main__":
    print(build_page(), end="")
