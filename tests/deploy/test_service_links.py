"""What Kubernetes puts into a container's environment for a Service called router: the error says
what to do.
"""

import pytest

from tests.support.config import load_settings, read_refusal

LINKS = {
    "ROUTER_PORT": "tcp://10.0.0.1:9001",
    "ROUTER_SERVICE_HOST": "10.0.0.1",
    "ROUTER_SERVICE_PORT": "9001",
    "ROUTER_SERVICE_PORT_HTTP": "9001",
    "ROUTER_PORT_9001_TCP": "tcp://10.0.0.1:9001",
    "ROUTER_PORT_9001_TCP_PROTO": "tcp",
    "ROUTER_PORT_9001_TCP_PORT": "9001",
    "ROUTER_PORT_9001_TCP_ADDR": "10.0.0.1",
    "ROUTER_NATS_PORT": "tcp://10.0.0.2:4222",  # a Service called router-nats
    # a Service called router-http: there is a setting of that name
    "ROUTER_HTTP_PORT": "tcp://10.0.0.3:80",
}


@pytest.mark.parametrize("name", LINKS)
def test_a_service_link_is_refused_with_its_remedy(name: str) -> None:
    text = read_refusal(**{name: LINKS[name]})
    assert "enableServiceLinks: false" in text
    assert name in text


def test_a_port_of_ours_is_still_a_setting() -> None:
    assert load_settings(ROUTER_HTTP_PORT="9100").settings.http.port == 9100


def test_a_bad_port_is_told_as_ever() -> None:
    text = read_refusal(ROUTER_HTTP_PORT="many")
    assert "Kubernetes" not in text
    assert "ROUTER_HTTP_PORT" in text
