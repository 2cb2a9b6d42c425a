"""Who may come in, and with what."""

import pytest

from router.operate.admin import RequestGuard, ServiceError


def opened(door: RequestGuard, data: bytes, **headers: str) -> dict[str, object]:
    return door.open(data, headers).exclude()


def declined(door: RequestGuard, data: bytes, **headers: str) -> str:
    with pytest.raises(ServiceError) as caught:
        door.open(data, headers)
    return caught.value.code


@pytest.mark.parametrize("data", [b"", b"{}"])
def test_an_empty_body_is_an_empty_request(data: bytes) -> None:
    assert opened(RequestGuard(), data) == {}


@pytest.mark.parametrize("data", [b"[]", b"{", b"null", b'"x"', b'{"a":' * 70 + b"1" + b"}" * 70])
def test_a_body_that_is_no_object_within_the_limits_is_refused(data: bytes) -> None:
    assert declined(RequestGuard(), data) == "invalid_request"


def test_the_size_is_looked_at_before_anything_is_parsed() -> None:
    assert declined(RequestGuard(max_bytes=10), b"x" * 11) == "invalid_request"


def test_the_key_is_taken_from_body_or_header() -> None:
    door = RequestGuard("sesame")
    assert opened(door, b'{"api_key": "sesame", "a": 1}') == {"a": 1}
    assert opened(door, b'{"a": 1}', api_key="sesame") == {"a": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"api_key": "Sesame"}',
        b'{"api_key": ""}',
        b'{"api_key": null}',
        b'{"api_key": ["sesame"]}',
    ],
)
def test_a_wrong_or_missing_key_is_refused(body: bytes) -> None:
    assert declined(RequestGuard("sesame"), body) == "unauthorized"


def test_a_right_key_in_the_body_does_not_heal_a_wrong_one_in_the_header() -> None:
    assert (
        declined(RequestGuard("sesame"), b'{"api_key": "sesame"}', api_key="wrong")
        == "unauthorized"
    )


def test_without_a_configured_key_none_is_asked_for_and_none_is_handed_on() -> None:
    assert opened(RequestGuard(), b'{"api_key": "whatever"}', api_key="whatever") == {}
