"""`router contract asyncapi`: every subject of this router, its messages and streams, as one document. No server is asked."""

from __future__ import annotations

import orjson

from router.shell.command_frame import CommandSession, command


@command()
def asyncapi(session: CommandSession) -> None:
    """Print the AsyncAPI 3.0 document of a router with these settings: YAML, or with --json JSON. No server is asked.

    Example:  router contract asyncapi > asyncapi.yaml    router contract asyncapi --json > asyncapi.json
    """
    from router.serve.contract.asyncapi import write_yaml
    from router.serve.contract.contract_document import build_contract_document

    document = build_contract_document(session.settings)
    print(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() if session.as_json else write_yaml(document), end="")
    if session.as_json:
        print()
