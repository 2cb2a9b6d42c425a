"""What a user may see who is limited to one tenant: the address is narrowed before a page is read,
one thing is compared after.

What is refused and what is not there get the same answer, so nothing tells which dead letters or
assignments there are.
"""

from __future__ import annotations

from router.shell.page_data import Page, PageNotFound, PageParams, PageSpec, Scope

TENANT = "tenant"


def limit_address(spec: PageSpec, params: PageParams, tenant: str | None) -> PageParams:
    """The values that are read by. Raises PageNotFound."""
    if tenant is None:
        return params
    if spec.scope is Scope.ASKED:
        return PageParams({**params.values, TENANT: tenant}, params.path)
    if spec.scope is Scope.CLOSED or (spec.scope is Scope.PATH and params.path[TENANT] != tenant):
        raise PageNotFound(describe_limit(tenant))
    return params


def check_page(spec: PageSpec, page: Page | None, tenant: str | None) -> None:
    """Raises PageNotFound."""
    if (
        tenant is not None
        and spec.scope is Scope.SHOWN
        and page is not None
        and page.tenant != tenant
    ):
        raise PageNotFound(describe_limit(tenant))


def describe_absence(cause: PageNotFound, tenant: str | None) -> str:
    """To them, why there is no such thing would tell what there is."""
    return str(cause) if tenant is None else describe_limit(tenant)


def describe_limit(tenant: str) -> str:
    return f"There is nothing of tenant {tenant} here. Your login shows this tenant's data only."
