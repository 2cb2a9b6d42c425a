"""`router explain`: every code that the source knows is in its table, and nothing else is."""

import ast
import importlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import router
from router.contracts import codes, decision, failure_class
from router.contracts.codes import pages as code_pages
from router.contracts.codes.pages import locate, read_rule
from router.contracts.header_rules import RULES
from router.contracts.malformed import VALIDATION_CODES
from router.core import outcome
from router.core.errors import RouterError
from router.extensions.model import modes
from router.gateway.model import refusal
from router.mailbox.policies import POLICIES
from router.operate.admin import service
from router.operate.doctor import Verdict
from router.policies.model.policy import PRIORITIES
from router.sdk import step
from router.shell import exit_codes
from tests.support.cli import call_command_async, table_words
from tests.support.commands import find_wrong_commands

# their first argument is a code
CARRIERS = {"Fault", "Refusal", "ServiceError", "Failure", "Malformed", "QueryRefused"}
CARRIED = re.compile(rf"\b({'|'.join(CARRIERS)})\(")
HOME = Path(router.__file__).parent
# of decisions and requests: no codes
NAMES = {"executed_extensions", "downgraded_by", decision.RESERVED, *decision.RESERVED_TYPES}
TOLD = {
    "answer": {
        value for name, value in vars(decision).items() if name.isupper() and isinstance(value, str)
    }
    - NAMES
    | set(modes._CODES.values()),
    "decision": set(PRIORITIES),
    "admin": {*service.HTTP_STATUSES, service.INTERNAL},
    "http": {
        value
        for name, value in vars(refusal).items()
        if name.isupper() and name[0] != "_" and isinstance(value, str)
    },
    "worker": {
        value
        for name, value in vars(step).items()
        if name.isupper() and isinstance(value, str) and value.isdigit()
    }
    | {failure_class.NOT_ASKED},
    "reason": {outcome.VALIDATION_FAILED, outcome.MAXDELIVER_EXHAUSTED, outcome.PROCESSING_ERROR},
    "validation": set(VALIDATION_CODES),
    "violation": {rule.code for rule in RULES},
    "policy": {name for policy in POLICIES for name in (policy.id, policy.error_code) if name},
    "verdict": {verdict.value for verdict in Verdict},
    "exit": {
        str(value)
        for name, value in vars(exit_codes).items()
        if name.isupper() and isinstance(value, int)
    },
}


def sources() -> Iterator[Path]:
    return (file for file in HOME.rglob("*.py") if "pb" not in file.parts)


def told_by(file: Path) -> Iterator[str]:
    """The codes that this module puts into a value: a text, or a name of its own for one."""
    if not CARRIED.search(file.read_text()):
        return
    place = file.relative_to(HOME.parent).with_suffix("").parts
    module = importlib.import_module(".".join(part for part in place if part != "__init__"))
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in CARRIERS
            and node.args
        ):
            match node.args[0]:
                case ast.Constant(str(code)):
                    yield code
                case ast.Name(name) if isinstance(code := vars(module).get(name), str):
                    yield code


def loaded_errors(of: type[RouterError] = RouterError) -> Iterator[type[RouterError]]:
    for kind in of.__subclasses__():
        if kind.__module__.startswith("router."):
            yield kind
        yield from loaded_errors(kind)


def of_errors(file: Path) -> list[str]:
    """The `code` of each class of errors. Read, not imported: the lake's would load Spark."""
    return re.findall(r'^    code = "(\w+)"$', file.read_text(), flags=re.MULTILINE)


def test_every_code_that_the_source_knows_is_explained_and_no_other() -> None:
    known = {
        code for file in sources() for code in (*told_by(file), *of_errors(file))
    } | set().union(*TOLD.values())
    assert {kind.code for kind in loaded_errors()} <= known, (
        "a class of errors that does not say its code in one line"
    )
    assert known - codes.read_codes().keys() == set(), "explain them in router/contracts/codes/"
    assert codes.read_codes().keys() - known == set(), "no source names these codes"


@pytest.mark.parametrize("kind", TOLD)
def test_a_code_is_listed_wherever_it_is_met(kind: str) -> None:
    assert {code.code for code in codes.read_codes().values() if kind in code.kinds} >= TOLD[kind]


@pytest.mark.parametrize("name", codes.read_codes())
def test_an_explanation_says_something_everywhere(name: str) -> None:
    code = codes.read_codes()[name]
    assert code.kinds
    assert set(code.kinds) <= codes.CODE_KINDS.keys()
    assert all((code.means, *code.usual, *code.do))
    assert code.usual
    assert code.do
    assert find_wrong_commands("\n".join((code.means, *code.usual, *code.do))) == []


@pytest.mark.parametrize("name", codes.read_codes())
def test_the_rule_behind_a_code_is_a_sentence_of_its_page(name: str) -> None:
    rule = read_rule(codes.read_codes()[name].page)
    assert rule is not None
    assert re.fullmatch(r"\w[^|#]{8,}\.", rule)


def test_an_installed_package_has_the_pages_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyproject.toml puts docs/ there. Without them a code is explained all the same."""
    monkeypatch.setattr(code_pages, "PACKAGE", tmp_path / "router")
    assert (
        locate("docs/reference/contracts.md#replies"),
        read_rule("docs/reference/contracts.md#replies"),
    ) == (None, None)
    page = tmp_path / "router" / "docs" / "reference" / "contracts.md"
    page.parent.mkdir(parents=True)
    page.write_text(
        '# Contracts\n\n<a id="replies"></a>\n## Replies\n\nA [request](#x) gets\n'
        "`one` answer. Never two.\n"
    )
    assert locate("docs/reference/contracts.md#replies") == page
    assert read_rule("docs/reference/contracts.md#replies") == "A request gets one answer."
    assert read_rule("docs/reference/contracts.md#" + "gone") is None
    taken = tomllib.loads((HOME.parent / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]["force-include"]
    assert taken["docs"] == "router/docs"


def test_no_code_is_explained_twice() -> None:
    read = [code.code for name in codes.FILES for code in codes._read(name)]
    assert len(read) == len(set(read))


async def test_a_code_is_explained_for_people_and_for_programs() -> None:
    told = await call_command_async("explain", "policy_not_found")
    assert told.status == 0
    assert {"Usually", "What"} <= set(table_words(told.out))
    assert "router policy put" in told.out
    asked = (await call_command_async("explain", "POL-047-006", "--json")).json
    assert (asked["code"], asked["kinds"], asked["page"]) == (
        "POL-047-006",
        ["policy"],
        "docs/reference/requirements.md#pol-047-006",
    )
    assert (
        asked["rule"]
        == "POL-047-006: a handler that answers 422 has the message in the dead letters, and acked."
    )


async def test_a_dead_letters_error_code_is_found_in_its_upper_case() -> None:
    assert (await call_command_async("explain", "MAXDELIVER_EXHAUSTED", "--json")).json[
        "code"
    ] == "maxdeliver_exhausted"
    assert (await call_command_async("explain", "TENANT_FORBIDDEN", "--json")).json[
        "code"
    ] == "TENANT_FORBIDDEN"


async def test_an_unknown_code_is_told_the_nearest_names() -> None:
    ended = await call_command_async("explain", "extension_timout")
    assert ended.status == 1
    assert "did you mean extension_timeout" in ended.err
    assert "did you mean" not in (await call_command_async("explain", "0x7f")).err


async def test_without_a_code_all_are_listed_by_kind() -> None:
    lines = (await call_command_async("explain", "--json")).lines
    assert {line["code"] for line in lines} == set(codes.read_codes())
    table = (await call_command_async("explain")).out
    assert [kind for kind in codes.CODE_KINDS if f"\n {kind} " not in table] == []
