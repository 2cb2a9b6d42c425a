"""The contract as an AsyncAPI 3 document: what other programs read to talk to this router.

    document      the root: info, servers, messages and schemas from `contracts.shapes`, and the
                  parts below; as JSON values or YAML
    channels      every subject: who sends there, which messages, in which stream
    operators     the subjects of operators' services

Everything follows from the settings, the declared topology and the shapes, so the document is that
of this router.
"""

from __future__ import annotations

from router.serve.contract.asyncapi.document import ContractFacts, build_document, write_yaml

__all__ = ["ContractFacts", "build_document", "write_yaml"]
