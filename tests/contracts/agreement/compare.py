"""Generated messages, read by the schema and by the reader: where one takes what the other refuses."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from router.operate.catalogue import MessageShape
from tests.contracts.agreement.generate import generate
from tests.contracts.agreement.readers import is_readable


def validator_of(shape: MessageShape) -> jsonschema_rs.Draft202012Validator:
    schema = shape.build_schema()
    jsonschema_rs.meta.validate(schema)
    return jsonschema_rs.Draft202012Validator(schema)


def find_disagreements(
    shape: MessageShape, count: int, seed: int, counts: Counter[bool]
) -> Iterator[tuple[bool, Any]]:
    """(what the schema says, the message); `counts` counts what the reader said of all."""
    validator = validator_of(shape)
    for message in generate(shape, count, seed):
        is_valid, is_taken = validator.is_valid(message), is_readable(shape.name, message)
        counts[is_taken] += 1
        if is_valid is not is_taken:
            yield is_valid, message
