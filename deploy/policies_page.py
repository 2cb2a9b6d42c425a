"""The tables of the page on policies, made of the readers that check one: `python
deploy/policies_page.py` writes that page anew.

A document without any key is read by `read_policy`, and each key that it asks for is noted with its
type, bounds and default. The page keeps its text and the column of meanings; keys, types and
defaults are written anew. What no reader says in figures stands in WORDS.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from router.policies.model.fields import Fields, PolicyError, Problems
from router.policies.model.parse import read_policy
from router.policies.model.sections import (
    LARGEST_CONFIG,
    LARGEST_PARAMETERS,
    MAX_COUNTS,
    MOST_PAUSES,
    YEAR_S,
)

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "policies.md"
TABLES = {  # the page's anchor -> where its objects stand in a document
    "document": ("",),
    "providers": ("providers",),
    "fallbacks": ("fallbacks",),
    "strategy": ("strategy",),
    "sticky": ("sticky",),
    "pipeline": ("pre", "validators", "post"),
    "circuit-breaker": ("circuit_breaker",),
    "rate-limit": ("rate_limit",),
}
ANCHORS = {place: anchor for anchor, places in TABLES.items() for place in places} | {
    "priority": "priority"
}
IS_REQUIRED_LIST = "providers"
CONDITION = "[condition](#conditions)"
WORDS = {  # what a reader checks in words of its own: type and bounds
    "tenant_id": "a [scoped id](contracts.md#ids); `_shared` is legal",
    "policy_id": "a [scoped id](contracts.md#ids)",
    "providers.name": "{}, each once",
    "providers.parameters": f"object, at most {LARGEST_PARAMETERS // 1024} KiB",
    "fallbacks.when": CONDITION,
    "fallbacks.to": "a provider's name",
    "fallbacks.backoff": f"milliseconds 0 … 300 000, or a list of at most {MOST_PAUSES}",
    "sticky.ttl": f"{{}}, 1 s … {YEAR_S // 3600} h",
    "pre.config": f"object, at most {LARGEST_CONFIG // 1024} KiB",
    "pre.when": CONDITION,
}
DEFAULTS = {  # in words, where a reader has none
    "tenant_id": "that it is stored under",
    "policy_id": "that it is stored under",
    "strategy": "by weight",
    "timeout_ms": "none; with extensions `decide.pipeline_timeout_ms` (30 000)",
    "providers.expected_latency_ms": "500 in answers",
    "providers.expected_cost": "0.01 in answers",
    "providers.model": "none",
    "strategy.explore": "0.01",
    "pre.timeout_ms": "the registry's",
    "pre.retry": "the registry's",
}
NONE = "none"


class RecordingFields(Fields):
    """One object of a document without keys: every key that a reader takes is noted in `rows`, as
    (key, type and bounds, default).
    """

    def __init__(self, place: str, rows: dict[str, dict[str, tuple[str, str]]]) -> None:
        super().__init__({}, place, Problems())
        self._place, self._rows, self._required = place, rows, set[str]()
        rows.setdefault(place, {})

    def _note(self, key: str, kind: str, default: str) -> None:
        full = f"{self._place}.{key}" if self._place else key
        kind = WORDS.get(full, "{}").format(kind)
        self._rows[self._place][key] = (
            kind,
            "required" if key in self._required else DEFAULTS.get(full, default),
        )

    def require(self, *keys: str) -> None:
        self._required.update(keys)

    def take(self, key: str) -> object:
        self._note(key, "", NONE)
        return None

    def number(self, key: str, low: float, high: float, default: Any) -> Any:
        self._note(key, f"number, {_format(low)} … {_format(high)}", _format(default))
        return default

    def integer(self, key: str, low: int, high: int, default: Any) -> Any:
        self._note(key, f"integer, {_format(low)} … {_format(high)}", _format(default))
        return default

    def flag(self, key: str, default: bool) -> bool:
        self._note(key, "true or false", f"`{json.dumps(default)}`")
        return default

    def text(self, key: str, pattern: re.Pattern[str], default: str) -> str:
        self._note(key, f"`{pattern.pattern}`", f'`"{default}"`')
        return default

    def choice(self, key: str, options: Sequence[str], default: str) -> str:
        self._note(key, ", ".join(f'`"{one}"`' for one in options), f'`"{default}"`')
        return default

    def free(self, key: str) -> Mapping[str, object]:
        self._note(key, "object", "`{}`")
        return {}

    def child(self, key: str) -> Fields:
        self._note(key, "object", NONE)
        return RecordingFields(f"{self._place}.{key}".lstrip("."), self._rows)

    def children(self, key: str) -> list[Fields]:
        least = 1 if key == IS_REQUIRED_LIST else 0
        self._note(key, f"list, {least} … {MAX_COUNTS[key]}", "required" if least else "`[]`")
        return [RecordingFields(key, self._rows)]

    def close(self, noun: str) -> None:
        pass


def _format(value: float | None) -> str:
    if value is None:
        return NONE
    return "1e9" if value == 1e9 else f"{value:,}".replace(",", " ")


def read_rows() -> dict[str, dict[str, tuple[str, str]]]:
    """For each object of a document its keys, each with (type and bounds, default). `within` has no
    table of its own.
    """
    rows: dict[str, dict[str, tuple[str, str]]] = {}
    # a document without keys is none, but then all keys have been asked for
    with suppress(PolicyError):
        read_policy(RecordingFields("", rows), "acme", "default")
    within = rows.pop("strategy.within")
    del rows["strategy"]["within"]
    rows["strategy"] |= {f"within.{key}": row for key, row in within.items()}
    return rows


def build_page(page: str | None = None) -> str:
    """Return the page with its tables made anew. Raises KeyError for a key that has no meaning
    there.
    """
    text, rows = PAGE.read_text("utf-8") if page is None else page, read_rows()
    for anchor, places in TABLES.items():
        start = text.index("|---|---|---|---|\n", text.index(f'<a id="{anchor}"></a>')) + len(
            "|---|---|---|---|\n"
        )
        end = text.index("\n\n", start) + 1
        meanings = {
            _read_key(line): line.removesuffix("|").rsplit("| ", 1)[-1].strip()
            for line in text[start:end].splitlines()
        }
        text = text[:start] + "".join(_build_rows(rows, places, meanings)) + text[end:]
    return text


def _read_key(line: str) -> str:
    found = re.match(r"\| \[?`([a-z0-9_.]+)`", line)
    return found[1] if found else line


def _build_rows(
    rows: Mapping[str, Mapping[str, tuple[str, str]]],
    places: Sequence[str],
    meanings: Mapping[str, str],
) -> Iterable[str]:
    for key in dict.fromkeys(key for place in places for key in rows[place]):
        having = [place for place in places if key in rows[place]]
        kind, default = rows[having[0]][key]
        name = f"[`{key}`](#{ANCHORS[key]})" if key in ANCHORS and places == ("",) else f"`{key}`"
        of = "" if len(having) == len(places) else f" ({', '.join(having)})"
        yield f"| {name}{of} | {kind} | {default} | {meanings[key]} |\n".replace("|  |", "| |")


if __name__ == "__main__":
    PAGE.write_text(build_page(), "utf-8")
