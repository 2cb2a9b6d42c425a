"""The editor of a policy: checked while it is typed, tried against recorded decisions, put over the
version that was seen; and a way back.

A conflict, like a mistake, brings the editor back with the text as it was written: nothing that was
typed is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from router.core import ids
from router.core.errors import Conflict, RouterError, describe_causes
from router.delivery.kv.documents import DocumentBucket
from router.operate.admin.broadcast import request_from_all
from router.operate.admin.service import ADMIN
from router.policies.model import SHARED, ParsedPolicy, PolicyError, lint
from router.policies.model.parse import MAX_POLICY_BYTES
from router.policies.store import (
    AuditedPolicies,
    PolicyNotFound,
    PolicyStore,
    check_policy_in_thread,
)
from router.policies.trial import combine_answers, list_sentences
from router.shell.access import Access, FormRefused
from router.shell.access.control import describe_limit
from router.shell.mend.frame import Mend, MendFrame
from router.shell.page_data import PageNotFound, Sources
from router.shell.pages import PAGES
from router.shell.rendering import render

TRY_SERVICE = "try_policy"
TRIED = 500  # recorded decisions
TRY_WITHIN_S = 5.0
MAX_FINDINGS = 100
NEW = {"version": "1.0", "providers": [{"name": "PROVIDER", "weight": 1}]}


class PolicyDraft(Struct, frozen=True, kw_only=True):
    """What the editor shows. `replaces`: the version that was seen, 0: there was none; `findings`:
    severity and text.
    """

    name: tuple[str, str]
    text: str
    replaces: int
    note: str = ""
    title: str = ""
    findings: Sequence[tuple[str, str]] = ()

    @property
    def is_wrong(self) -> bool:
        return any(severity == "error" for severity, _ in self.findings)


class PolicyEditor:
    def __init__(self, frame: MendFrame) -> None:
        self._frame = frame

    async def edit(self, request: Request) -> Response:
        """The newest version, or `version`, to write over the newest. Raises PageNotFound."""
        access = self._frame.access.find(request)
        if not access.can_write:
            return RedirectResponse(f"/login?next={request.url.path}", 303)
        name = _read_name(request.path_params)
        if access.tenant not in (None, name[0]):
            raise PageNotFound(describe_limit(access.tenant or ""))
        try:
            draft = await _open_draft(
                self._frame.sources, name, request.query_params.get("version", "")
            )
        except PolicyNotFound as exc:
            raise PageNotFound(str(exc)) from exc
        except RouterError as exc:
            return self._render(
                access,
                PolicyDraft(
                    name=name, text="", replaces=0, title="Nothing is known", findings=_tell(exc)
                ),
                503,
            )
        return self._render(access, draft)

    async def check(self, request: Request) -> Response:
        """Lint, also while it is typed. Raises FormRefused."""
        mend, draft = await self._read(request)
        return self._render(mend.access, await _check(draft))

    async def try_out(self, request: Request) -> Response:
        """What would change of the last recorded decisions; nothing is stored. Raises FormRefused."""
        mend, draft = await self._read(request)
        try:
            tried = await _try(mend.sources, draft)
        except RouterError as exc:
            tried = _show(draft, "It was not tried", _tell(exc))
        return self._render(mend.access, tried)

    async def put(self, request: Request) -> Response:
        """Write it over the version that was seen. Raises FormRefused."""
        mend, draft = await self._read(request)
        policies = AuditedPolicies(_open_store(mend.sources), mend.trail)
        try:
            version = await policies.put(
                *draft.name,
                draft.text.encode(),
                replaces=draft.replaces,
                author=mend.by,
                note=mend.note,
            )
        except Conflict as exc:
            address = f"/policies/{'/'.join(draft.name)}"
            told = (
                f"{exc}. Version {draft.replaces} was seen here; {address} has what was "
                "written meanwhile."
            )
            return self._render(
                mend.access, _show(draft, "Nothing was written", [("error", told)]), 409
            )
        except RouterError as exc:
            return self._render(mend.access, _show(draft, "Nothing was written", _tell(exc)), 400)
        self._frame.finish(mend, f"{'/'.join(draft.name)} version {version} is in force.")
        return RedirectResponse(f"/policies/{'/'.join(draft.name)}", 303)

    async def _read(self, request: Request) -> tuple[Mend, PolicyDraft]:
        mend = await self._frame.open(request)
        name = _read_name(mend.path)
        mend.require_tenant(name[0])
        text, replaces = mend.form.document("document"), mend.form.number("replaces")
        if replaces is None:
            raise FormRefused(400, "The form does not say which version was seen.")
        return mend, PolicyDraft(name=name, text=text, replaces=replaces, note=mend.note or "")

    def _render(self, access: Access, draft: PolicyDraft, status: int = 200) -> Response:
        title = f"Edit {'/'.join(draft.name)}"
        here = f"/policies/{'/'.join(draft.name)}"
        values = {"title": title, "here": here, "draft": draft, "most": MAX_POLICY_BYTES}
        return HTMLResponse(
            render("policy.html", PAGES, path="/policies", access=access, **values), status
        )


async def roll_back(mend: Mend) -> str:
    """Write an earlier version again, over the version that was seen."""
    name = _read_name(mend.path)
    mend.require_tenant(name[0])
    to, seen = mend.form.number("to"), mend.form.number("replaces")
    if to is None or seen is None:
        raise FormRefused(400, "The form does not say which version, and which was seen.")
    policies = AuditedPolicies(_open_store(mend.sources), mend.trail)
    version = await policies.rollback(*name, to, author=mend.by, replaces=seen, note=mend.note)
    mend.session.tell(f"{'/'.join(name)} version {version} is in force, as version {to} was.")
    return f"/policies/{'/'.join(name)}"


async def _open_draft(sources: Sources, name: tuple[str, str], version: str) -> PolicyDraft:
    store = _open_store(sources)
    present = await store.find(*name)
    replaces = present.record.version if present is not None else 0
    if version.isascii() and version.isdigit() and 0 < len(version) < 10:
        present = await store.get(*name, version=int(version))
    document = present.record.document if present is not None else NEW
    return PolicyDraft(
        name=name,
        text=orjson.dumps(document, option=orjson.OPT_INDENT_2).decode(),
        replaces=replaces,
    )


async def _check(draft: PolicyDraft) -> PolicyDraft:
    try:
        parsed = await check_policy_in_thread(draft.text.encode(), *draft.name)
    except PolicyError as exc:
        return _show(draft, "It cannot be put", _tell(exc))
    warnings = _list_warnings(parsed)
    return _show(draft, "It can be put" + (", with warnings" if warnings else ""), warnings)


async def _try(sources: Sources, draft: PolicyDraft) -> PolicyDraft:
    """Raises PolicyError, BrokerUnavailable."""
    parsed = await check_policy_in_thread(draft.text.encode(), *draft.name)
    asked = {
        "tenant_id": draft.name[0],
        "policy_id": draft.name[1],
        "policy": parsed.document,
        "against": TRIED,
    }
    connection, key = sources.link.connection(), sources.settings.admin.api_key
    answers = await request_from_all(connection, key, ADMIN + TRY_SERVICE, asked, TRY_WITHIN_S)
    if not answers.successful:
        texts = [
            ("error", f"{error.get('code')}: {error.get('message')}") for error in answers.errors
        ] or [("error", "no router answered")]
        return _show(draft, "It was not tried", texts)
    trial = combine_answers(answers.successful, TRIED, answers.missing)
    if not trial.total:
        return _show(
            draft,
            "It was not tried",
            [
                (
                    "warning",
                    "no decision by this policy is recorded: recorder.tenants names whose are",
                )
            ],
        )
    changes = [
        ("warning", f"{before} → {after}: {count:,}")
        for (before, after), count in trial.pairs.items()
    ]
    shares = [
        ("info", f"{share.provider}: {share.before:.1%} → {share.after:.1%} of the requests")
        for share in trial.shares
    ]
    return _show(
        draft, f"{'. '.join(list_sentences(trial))}.", [*changes, *shares, *_list_warnings(parsed)]
    )


def _show(draft: PolicyDraft, title: str, findings: Sequence[tuple[str, str]]) -> PolicyDraft:
    return PolicyDraft(
        name=draft.name,
        text=draft.text,
        replaces=draft.replaces,
        note=draft.note,
        title=title,
        findings=findings[:MAX_FINDINGS],
    )


def _tell(exc: RouterError) -> Sequence[tuple[str, str]]:
    if isinstance(exc, PolicyError):
        return [("error", f"{path}: {message}") for path, message in exc.errors]
    return [("error", describe_causes(exc))]


def _list_warnings(parsed: ParsedPolicy) -> Sequence[tuple[str, str]]:
    return [
        (warning.severity, f"{warning.path}: {warning.message}")
        for warning in (*parsed.warnings, *lint(parsed.policy))
    ]


def _read_name(path: Mapping[str, str]) -> tuple[str, str]:
    """Raises PageNotFound."""
    tenant, policy = path["tenant"], path["policy"]
    if not ((tenant == SHARED or ids.is_scoped(tenant)) and ids.is_scoped(policy)):
        raise PageNotFound(
            "A tenant and a policy are ids: A-Z a-z 0-9 _ . : - without . or _ in front."
        )
    return tenant, policy


def _open_store(sources: Sources) -> PolicyStore:
    return PolicyStore(
        DocumentBucket(sources.link.jetstream(), sources.settings.buckets.policies.name)
    )
