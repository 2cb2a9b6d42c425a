"""A login in an address is percent-decoded, as other NATS clients and RFC 3986 have it."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from router.core.errors import LoginRefused
from router.delivery.wire.first_connection import connect
from tests.support.broker import Broker

PASSWORD = "p@ss/w:rd%1 é"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    with Broker(
        f'authorization {{ users = [{{user: "s@vc", password: "{PASSWORD}"}}] }}'
    ) as broker:
        yield broker


async def test_user_and_password_may_hold_any_character(guarded: Broker) -> None:
    address = f"nats://{quote('s@vc', safe='')}:{quote(PASSWORD, safe='')}@127.0.0.1:{guarded.port}"
    connection = await connect({"servers": [address]})
    assert connection.is_connected
    await connection.close()


async def test_a_login_of_the_settings_is_sent_as_it_is(guarded: Broker) -> None:
    address = f"nats://a%20b:c%20d@127.0.0.1:{guarded.port}"
    connection = await connect({"servers": [address], "user": "s@vc", "password": PASSWORD})
    assert connection.is_connected
    await connection.close()


async def test_a_refusal_says_how_a_character_is_written_in_an_address(guarded: Broker) -> None:
    with pytest.raises(LoginRefused, match="%40"):
        await connect({"servers": [f"nats://s%40vc:wrong@127.0.0.1:{guarded.port}"]})


async def test_a_token_in_an_address_is_decoded_too() -> None:
    with Broker('authorization { token: "to/k@n" }') as broker:
        connection = await connect(
            {"servers": [f"nats://{quote('to/k@n', safe='')}@127.0.0.1:{broker.port}"]}
        )
        assert connection.is_connected
        await connection.close()
