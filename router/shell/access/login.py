"""The addresses /login and /logout.

The form of the login has a token that its cookie repeats: without a session no other secret tells
that a form is ours.
"""

from __future__ import annotations

import hmac
from secrets import token_urlsafe

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from router.shell.access.control import COOKIE, Access, AccessControl
from router.shell.access.form import FormRefused, SentForm, read_form
from router.shell.access.users import RETRY_AFTER_S, TooManyLogins
from router.shell.page_data import PageNotFound
from router.shell.pages import PAGES
from router.shell.rendering import render

LOGIN_COOKIE = "router_console_login"
LOGIN_FORM_S = 3_600
WRONG = "No user has this name and this password."
TOO_MANY = "Too many were tried. Wait ten seconds."


class LoginPages:
    def __init__(self, access: AccessControl) -> None:
        self._access = access

    @property
    def is_open(self) -> bool:
        """Whether there is a login."""
        return self._access.has_login

    async def show(self, request: Request) -> Response:
        """Raises PageNotFound if there is no login here."""
        if not self._access.has_login:
            raise PageNotFound(
                "There is no login here: console.writes and console.users are not set."
            )
        return self._render(request, read_next(request.query_params.get("next", "")))

    async def log_in(self, request: Request) -> Response:
        """Begin a session. Raises FormRefused, PageNotFound."""
        if not self._access.has_login:
            raise PageNotFound(
                "There is no login here: console.writes and console.users are not set."
            )
        form = await read_form(request)
        self._check_token(request, form)
        then = read_next(form.text("next"))
        try:
            user = await self._access.find_user(
                form.text("user"),
                form.text("password"),
                request.client.host if request.client else "",
            )
        except TooManyLogins:
            return self._render(request, then, 429, TOO_MANY)
        if user is None:
            return self._render(request, then, 401, WRONG)
        before = self._access.find(request).session
        if before is not None:
            self._access.sessions.end(before)
        _, cookie = self._access.sessions.begin(user)
        response = RedirectResponse(then, 303)
        set_cookie(response, request, COOKIE, cookie)
        response.delete_cookie(LOGIN_COOKIE, path="/login")
        return response

    async def log_out(self, request: Request) -> Response:
        """End the session. Raises FormRefused."""
        session = self._access.check_form(self._access.find(request), await read_form(request))
        self._access.sessions.end(session)
        response = RedirectResponse("/", 303)
        response.delete_cookie(COOKIE, path="/")
        return response

    def _check_token(self, request: Request, form: SentForm) -> None:
        cookie, given = request.cookies.get(LOGIN_COOKIE), form.text("csrf")
        if self._access.sessions.unsign(cookie) is None or not hmac.compare_digest(
            (cookie or "").encode(), given.encode()
        ):
            raise FormRefused(
                403, "This form is too old, or not of this console. Open /login again."
            )

    def _render(self, request: Request, then: str, status: int = 200, error: str = "") -> Response:
        token = self._access.sessions.sign(token_urlsafe(24))
        access = Access(has_login=True)
        values = {
            "path": "",
            "title": "Log in",
            "token": token,
            "next": then,
            "error": error,
            "access": access,
        }
        response = HTMLResponse(render("login.html", PAGES, **values), status)
        if status == 429:
            response.headers["retry-after"] = str(RETRY_AFTER_S)
        set_cookie(response, request, LOGIN_COOKIE, token, path="/login", seconds=LOGIN_FORM_S)
        return response


def read_next(text: str) -> str:
    """An address of this console; what could lead elsewhere is the page Now."""
    is_own = (
        text.startswith("/")
        and not text.startswith("//")
        and "\\" not in text
        and text.isascii()
        and text.isprintable()
    )
    return text if is_own and len(text) <= 1_024 else "/"


def set_cookie(
    response: Response,
    request: Request,
    name: str,
    value: str,
    *,
    path: str = "/",
    seconds: int | None = None,
) -> None:
    """`Secure` where the browser reached us by https: the guard has compared the Origin of a form
    with our name.
    """
    is_secure = (
        request.headers.get("origin", "").startswith("https://") or request.url.scheme == "https"
    )
    response.set_cookie(
        name, value, max_age=seconds, path=path, secure=is_secure, httponly=True, samesite="strict"
    )
