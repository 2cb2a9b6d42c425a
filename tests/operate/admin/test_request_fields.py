"""The fields of an admin request: a value of the right kind, or the field's name."""

from collections.abc import Callable

import pytest

from router.operate.admin import ServiceError
from router.operate.admin.service import RequestFields

READERS: dict[str, tuple[str, Callable[[RequestFields], object]]] = {
    "tenant_id": ("tenant_id", RequestFields.tenant_id),
    "shelf_tenant": ("tenant_id", RequestFields.policy_tenant),
    "policy_id": ("policy_id", RequestFields.policy_id),
    "extension_id": ("id", RequestFields.extension_id),
}


def field_of(read: Callable[[], object]) -> object:
    with pytest.raises(ServiceError) as caught:
        read()
    assert caught.value.code == "invalid_request"
    return (caught.value.details or {})["field"]


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("value", [None, "", 7, "a b", "../etc", "*", ">", "x" * 129])
def test_an_id_that_is_missing_or_none_names_its_field(name: str, value: object) -> None:
    field, read = READERS[name]
    assert field_of(lambda: read(RequestFields({field: value}))) == field


def test_shared_is_a_tenant_of_policies_and_of_nothing_else() -> None:
    shared = RequestFields({"tenant_id": "_shared"})
    assert shared.policy_tenant() == "_shared"
    assert field_of(shared.tenant_id) == "tenant_id"


@pytest.mark.parametrize("value", [-1, 1.0, True, "1", 2**63])
def test_a_version_is_a_whole_number(value: object) -> None:
    assert field_of(RequestFields({"replaces": value}).replaced_version) == "replaces"


def test_replaces_may_say_that_there_is_none() -> None:
    assert (
        RequestFields({"replaces": 0}).replaced_version(),
        RequestFields({}).replaced_version(),
    ) == (0, None)


def test_a_flag_is_true_or_false_and_absent_is_false() -> None:
    assert [
        RequestFields(body).flag("invoke") for body in ({}, {"invoke": None}, {"invoke": True})
    ] == [False, False, True]
    assert field_of(lambda: RequestFields({"invoke": "yes"}).flag("invoke")) == "invoke"


def test_an_object_is_an_object() -> None:
    assert field_of(lambda: RequestFields({"policy": []}).json_object("policy")) == "policy"
    assert field_of(lambda: RequestFields({}).json_object("policy")) == "policy"
