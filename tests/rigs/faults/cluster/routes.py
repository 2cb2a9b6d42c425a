"""The routes between the servers: each passes a proxy, so that one server can be cut off from its
peers.

`routes[i, j]` is the proxy through which server i reaches server j. Only one of [i, j] and [j, i]
carries a route at a time, whichever was first, so a fault always acts on both.
"""

from collections.abc import Sequence

from tests.support.proxy import BOTH, FROM_SERVER, TO_SERVER, Proxy

# The address that a server tells its peers. There is nothing behind it: a peer that followed it
# would pass the proxies by.
ADVERTISED = "127.0.0.1:1"


class Routes:
    """`ports`: where each server listens for its peers."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports
        self._proxies = {
            (i, j): Proxy(port) for i in range(len(ports)) for j, port in enumerate(ports) if i != j
        }

    async def start(self) -> None:
        for proxy in self._proxies.values():
            await proxy.start()

    def urls_of(self, server: int) -> list[str]:
        """What goes into its configuration."""
        return [proxy.url for (i, _), proxy in self._proxies.items() if i == server]

    def port_of(self, server: int) -> int:
        return self._ports[server]

    def isolate(self, server: int) -> None:
        """Its peers and it hear nothing of each other. The connections stay, as behind a firewall
        that drops packets.
        """
        for proxy in self._to(server) + self._from(server):
            proxy.silence(*BOTH)

    def mute(self, server: int) -> None:
        """It hears its peers, and they do not hear it."""
        self._silence(self._from(server), TO_SERVER)
        self._silence(self._to(server), FROM_SERVER)

    def deafen(self, server: int) -> None:
        """Its peers hear it, and it does not hear them."""
        self._silence(self._from(server), FROM_SERVER)
        self._silence(self._to(server), TO_SERVER)

    def mend(self) -> None:
        for proxy in self._proxies.values():
            proxy.mend()

    async def close(self) -> None:
        for proxy in self._proxies.values():
            await proxy.close()

    def _silence(self, proxies: Sequence[Proxy], way: str) -> None:
        for proxy in proxies:
            proxy.silence(way)

    def _from(self, server: int) -> list[Proxy]:
        return [proxy for (i, _), proxy in self._proxies.items() if i == server]

    def _to(self, server: int) -> list[Proxy]:
        return [proxy for (_, j), proxy in self._proxies.items() if j == server]
