"""Who may see a console, and who may write in it.

    users      the file of users: names, argon2 hashes, the one tenant of a user;
               how often a password may be tried
    sessions   who is logged in, by a signed cookie; kept in this process
    control    these together: who asks, may they see this page, may they write; a limited user
    form       reads a form that a browser sends, within bounds
    login      the addresses /login and /logout

Without `console.users` every browser that reaches the address may read. Rule:
docs/how-to/console.md#access.
"""

from router.shell.access.control import Access, AccessControl
from router.shell.access.form import FormRefused, SentForm, read_form
from router.shell.access.login import LoginPages
from router.shell.access.sessions import LoginSession
from router.shell.access.users import ConsoleUser

__all__ = [
    "Access",
    "AccessControl",
    "ConsoleUser",
    "FormRefused",
    "LoginPages",
    "LoginSession",
    "SentForm",
    "read_form",
]
