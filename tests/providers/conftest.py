"""What the tests of provider services share."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.model_apis import ModelApis, serve_model_apis
from tests.support.observability import LogLines, capture_log


@pytest.fixture
async def apis() -> AsyncIterator[ModelApis]:
    async with serve_model_apis() as apis:
        yield apis


@pytest.fixture
def lines() -> Iterator[LogLines]:
    with capture_log() as lines:
        yield lines
