"""A browser of a console's user: it keeps cookies, and sends the forms of the pages that it opened."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx2
from argon2 import PasswordHasher

from router.config import Settings
from tests.support.console import Console, console_settings

ADMIN_KEY = "the-admin-key"
PASSWORD = "correct horse"
# what is tested is not how slow it is
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
# in a browser
LOG_IN = (
    f"document.querySelector('[name=password]').value = '{ADMIN_KEY}'; "
    "document.querySelector('main form').submit(); 0"
)
Fields = Mapping[str, str | Sequence[str]]


def writing(url: str, **more: object) -> Settings:
    """Settings of a console in which the admin key's holder may write."""
    return console_settings(url, console__writes=True, admin__api_key=ADMIN_KEY, **more)


def write_users(path: Path, **users: str | None) -> Path:
    """A file of users with PASSWORD, each limited to a tenant or not."""
    lines = [
        f"{name}:{CHEAP.hash(PASSWORD)}" + (f":{tenant}" if tenant else "")
        for name, tenant in users.items()
    ]
    path.write_text("\n".join(["# users", *lines, ""]))
    return path


class Browser:
    """`headers`: of each form, in place of those that a browser would send."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.client = httpx2.AsyncClient(timeout=60, base_url=console.url)

    async def open(self, path: str) -> httpx2.Response:
        return await self.client.get(path)

    async def read(self, path: str) -> str:
        response = await self.client.get(path)
        assert response.status_code == 200, (path, response.status_code, response.text)
        return response.text

    async def find_csrf(self, path: str) -> str:
        match = re.search(r'name="csrf" value="([^"]+)"', await self.read(path))
        assert match is not None, path
        return match[1]

    async def send(self, path: str, fields: Fields, **headers: str) -> httpx2.Response:
        """The form as it stands: without the page's token, unless it is among the fields."""
        return await self.client.post(
            path, data=dict(fields), headers={"origin": self.console.url, **headers}
        )

    async def submit(self, page: str, path: str, fields: Fields) -> httpx2.Response:
        """Open the page, and send a form of it."""
        return await self.send(path, {"csrf": await self.find_csrf(page), **fields})

    async def log_in(
        self, user: str = "", password: str = ADMIN_KEY, then: str = "/doctor"
    ) -> httpx2.Response:
        return await self.submit(
            "/login", "/login", {"user": user, "password": password, "next": then}
        )
