"""The table of all settings, made from the settings themselves: `python deploy/settings_table.py >
docs/reference/settings.md`.
"""

from __future__ import annotations

from router.config import Settings, describe

HEAD = """# Settings

Made by `python deploy/settings_table.py`; a test keeps it equal to the code. Given as `ROUTER_` and the name in upper
case with `__` for each dot (`ROUTER_DECIDE__ACK_WAIT_MS`), in a TOML file (`router serve --config FILE`) under the name
as it stands here, or by the names of the specifications (`NATS_URL`, `NATS_MAX_DELIVER`, `NATS_ACK_WAIT_MS`,
`NATS_BACKOFF_MS`, `NATS_SUBJECT_ALLOWLIST`, `NATS_REPLY_SUBJECT`, `METRICS_TENANT_LABEL_ALLOWLIST`,
`ENABLE_USAGE_PUBLISH`). `replicas` (`ROUTER_REPLICAS=3`) sets every
`….replicas` below that is not set itself. Later wins: defaults, file, the specifications' names, `ROUTER_…`, command line.
`router config` shows what is in force and where it came from. An unknown name stops the start.

| setting | default | meaning |
|---|---|---|
"""


def table() -> str:
    rows = describe(Settings(node_id="host:process"), {})
    return HEAD + "".join(
        f"| `{row.name}` | {_shown(row.name, row.default)} | {row.description} |\n" for row in rows
    )


def _shown(name: str, default: str) -> str:
    return "host and process" if name == "node_id" else f"`{default}`" if default else ""


if __name__ == "__main__":
    print(table(), end="")
