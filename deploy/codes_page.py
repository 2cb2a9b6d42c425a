"""The page of codes, made of what `router explain` reads: `python deploy/codes_page.py >
docs/reference/codes.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from router.contracts.codes import CODE_KINDS, Code, read_codes

HEAD = """# Codes

Made by `python deploy/codes_page.py`; a test keeps it equal to the code. Every code that an answer, a decision, a dead letter,
a log line, a verdict or an exit status has, by where it is met, with what usually causes it and what to do. `router explain CODE` shows the
same in a terminal, with the sentence of the rule behind it; `router explain CODE --json` gives it to a program.
"""


def build_page() -> str:
    codes = read_codes().values()
    sections = {kind: [code for code in codes if code.kinds[0] == kind] for kind in CODE_KINDS}
    contents = "".join(
        f"| [{kind}](#{kind}) | {text} | {len(sections[kind])} |\n"
        for kind, text in CODE_KINDS.items()
    )
    head = f"{HEAD}\n| where it is met first | | codes |\n|---|---|---|\n{contents}"
    return head + "".join(_build_section(kind, sections[kind]) for kind in CODE_KINDS)


def _build_section(kind: str, codes: Iterable[Code]) -> str:
    rows = "".join(map(_build_row, codes))
    head = f'\n<a id="{kind}"></a>\n## {CODE_KINDS[kind]}\n'
    return f"{head}\n| code | it means | usually | what to do |\n|---|---|---|---|\n{rows}"


def _build_row(code: Code) -> str:
    also = f" Also: {', '.join(code.kinds[1:])}." if code.kinds[1:] else ""
    means = f"{code.means}{also} [Rule]({_link(code.page)})"
    return f"| `{code.code}` | {_escape(means)} | {_join(code.usual)} | {_join(code.do)} |\n"


def _join(lines: Iterable[str]) -> str:
    return _escape("; ".join(line.rstrip(".") for line in lines))


def _link(page: str) -> str:
    """From docs/reference, where the page of codes is."""
    return (
        page.removeprefix("docs/reference/")
        if page.startswith("docs/reference/")
        else page.replace("docs/", "../", 1)
    )


def _escape(text: str) -> str:
    """What is no Markdown: a bar that would end the cell, `<id>` outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        one if one.startswith("`") else one.replace("<", "&lt;") for one in parts
    ).replace("|", "\\|")


if __name__ == "__main__":
    print(build_page(), end="")
