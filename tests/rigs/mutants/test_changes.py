"""Which faults a file can have, how they are told, and which are judged."""

import ast
from pathlib import Path

import pytest

from tests.rigs.mutants.__main__ import TOP
from tests.rigs.mutants.changes import Change, apply, find_changes
from tests.rigs.mutants.judged import name_change, read_judged
from tests.rigs.mutants.nearest import find_imports, find_nearest


def list_kinds(text: str) -> list[tuple[str, str]]:
    return [(change.kind, change.after) for change in find_changes(text, "a.py")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a < b", [("boundary", "x = a <= b"), ("comparison", "x = a >= b")]),
        ("x = a == b", [("comparison", "x = a != b")]),
        ("x = a in b", [("comparison", "x = a not in b")]),
        ("x = a and b", [("and, or", "x = a or b")]),
        ("x = not a", [("not", "x = a")]),
        ("x = a + b", [("arithmetic", "x = a - b")]),
        ("x = 7", [("constant", "x = 8"), ("constant", "x = 6")]),
        ("x = True", [("True, False", "x = False")]),
        ("def f(a=True): ...", [("default", "def f(a=False):")]),
        ("def f():\n return a", [("return", "return None")]),
        ("def f() -> bool:\n return a", [("return", "return not a")]),
        ("def f():\n g(a)", [("call dropped", "pass")]),
        ("async def f():\n await g(a)", [("call dropped", "pass")]),
        ("def f():\n raise E", [("raise dropped", "pass")]),
        ("if a: b = c", [("not", "if not a:")]),
        ("match a:\n case b if c: d = e", [("not", "case b if not c:")]),
        ("x = [a for a in b if a.c]", [("not", "x = [a for a in b if not a.c]")]),
    ],
)
def test_each_kind_of_fault(text: str, expected: list[tuple[str, str]]) -> None:
    assert list_kinds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        '"""Text."""\nx: Annotated[int, 3]',
        "log.info(events.STARTED, count=3)",
        "crashpoint('after_ack')",
        "@dataclass(frozen=True)\nclass A: ...",
        "class A(Struct, frozen=True): ...",
        "class A(Protocol):\n def f(self) -> int:\n  return a",
        "assert a > 3",
        "x = 'a' + b",
        "if TYPE_CHECKING:\n x = 3",
        "x = f(examples=(3,))",
        "def _list_examples():\n return (3,)",
        "EXAMPLE = A(3)",
    ],
)
def test_what_decides_nothing_has_no_fault(text: str) -> None:
    assert list_kinds(text) == []


def test_a_fault_is_one_and_where_it_says() -> None:
    text = "class A:\n  def f(self, a, b):\n    if a > 1 and b > 1:\n      return 5\n"
    changes = find_changes(text, "a.py")
    assert len({ast.unparse(apply(text, change)) for change in changes}) == len(changes)
    assert {(change.place, change.file) for change in changes} == {("A.f", "a.py")}
    last = next(change for change in changes if change.after == "return 6")
    assert (last.line, last.before, last.at_import) == (4, "return 5", False)
    assert ast.unparse(apply(text, last)) == ast.unparse(ast.parse(text.replace("5", "6")))


def test_what_the_import_computes_is_told_apart() -> None:
    text = "A = 1\ndef f(a=2):\n  return 3\nclass B:\n  c = 4\n"
    changes = {change.before: change.at_import for change in find_changes(text, "a.py")}
    assert changes == {"A = 1": True, "def f(a=2):": True, "return 3": False, "c = 4": True}


def test_so_is_a_function_that_the_import_calls() -> None:
    text = "def f():\n  return g() + 1\ndef g():\n  return 2\ndef h():\n  return 3\nA = [f()]\n"
    changes = {change.before: change.at_import for change in find_changes(text, "a.py")}
    assert changes == {"return g() + 1": True, "return 2": True, "return 3": False}


def test_so_is_a_lambda_outside_of_every_function() -> None:
    text = "A = sorted(B, key=lambda b: b + 1)\n"
    assert {change.at_import for change in find_changes(text, "a.py")} == {True}


def test_a_judged_mutant_is_known_by_its_text_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "judged.toml").write_text(
        '[[judged]]\nfile = "a.py"\nplace = "f"\nbefore = "return 1"\nafter = "return 2"\n'
        'reason = "why"\n'
    )
    judged = read_judged(tmp_path / "judged.toml")

    def find(text: str) -> Change:
        return next(one for one in find_changes(text, "a.py") if one.after == "return 2")

    assert judged[name_change(find("def f():\n  return 1"))] == "why"
    assert judged[name_change(find("# more\n\ndef f():\n  return 1"))] == "why"
    assert name_change(find("def g():\n  return 1")) not in judged


def test_every_judged_mutant_is_one_of_the_code_and_has_its_reason() -> None:
    judged = read_judged()
    files = {file for file, *_ in judged}
    known = {
        name_change(change)
        for file in files
        for change in find_changes((TOP / file).read_text(), file)
    }
    assert judged.keys() - known == set()
    assert all(reason.strip() for reason in judged.values())


def test_imports_are_found_in_every_form() -> None:
    text = (
        "import router.core.ids\nimport os\nfrom os import path\n"
        "from router.core import (\n    clock,\n    errors as e,\n)\n"
        "def f():\n    from tests.support.policy import a_request\n"
    )
    assert set(find_imports(text)) >= {
        "router.core.ids", "router.core", "router.core.clock", "router.core.errors",
        "tests.support.policy", "tests.support.policy.a_request",
    }  # fmt: skip
    assert not [name for name in find_imports(text) if name.startswith("os")]


def test_the_nearest_tests_of_a_module_are_those_of_its_room_that_import_it() -> None:
    near = find_nearest("router.budgets.model.spent_record", TOP, 6)
    assert {"tests/budgets/test_lease_records.py", "tests/budgets/test_budget_documents.py"} <= {
        *near[:5]
    }
    assert len(near) == 6
