"""The SDK's classes connect by a URL, or by those of a cluster."""

from router.sdk.connect import open_connection

NOTHING = "nats://127.0.0.1:1"


async def test_of_several_urls_the_one_that_answers_is_taken(nats_url: str) -> None:
    connection = await open_connection(f"{NOTHING},{nats_url}", "several")
    assert connection.is_connected
    await connection.close()
