"""The faults that a file of Python can have, one at a time.

A fault replaces one node of the syntax tree. What is left out says nothing to a caller: log lines,
docstrings, annotations, decorators, protocols, assertions, crash points, and texts; examples, which
`tests/docs` holds to their pages.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

SWAPPED: dict[type[ast.cmpop], tuple[tuple[str, type[ast.cmpop]], ...]] = {
    ast.Eq: (("comparison", ast.NotEq),),
    ast.NotEq: (("comparison", ast.Eq),),
    ast.Lt: (("boundary", ast.LtE), ("comparison", ast.GtE)),
    ast.LtE: (("boundary", ast.Lt), ("comparison", ast.Gt)),
    ast.Gt: (("boundary", ast.GtE), ("comparison", ast.LtE)),
    ast.GtE: (("boundary", ast.Gt), ("comparison", ast.Lt)),
    ast.Is: (("comparison", ast.IsNot),),
    ast.IsNot: (("comparison", ast.Is),),
    ast.In: (("comparison", ast.NotIn),),
    ast.NotIn: (("comparison", ast.In),),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
SILENT_CALLS = (
    "log.",
    "_log.",
    "crashpoint(",
    "crashpoint_sent(",
    "super().__init__(",
    "assert_never(",
)
SILENT_FIELDS = {"annotation", "returns", "decorator_list", "type_params"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One fault: `new` stands for what `parent` (its number in the order of ast.walk) has there."""

    file: str
    place: str
    line: int
    kind: str
    before: str
    after: str
    # What is computed at the import, outside of functions: the file is imported anew.
    at_import: bool
    parent: int = field(repr=False)
    field_name: str = field(repr=False)
    position: int | None = field(repr=False)
    new: ast.AST = field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.place}: {self.before}  ->  {self.after}"


@dataclass(frozen=True)
class Slot:
    """Where a node stands in its parent."""

    parent: ast.AST
    field_name: str
    position: int | None


@dataclass(frozen=True)
class Surroundings:
    place: tuple[str, ...] = ()
    in_function: bool = False
    returns_bool: bool = False
    statement: ast.AST | None = None


def find_changes(text: str, file: str) -> list[Change]:
    """All faults of a file, in the order of its lines."""
    tree = ast.parse(text)
    called = list_called_at_import(tree)
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    return [
        make_change(
            file,
            numbers[id(slot.parent)],
            (slot, node, around),
            (kind, new),
            at_import=is_at_import(around, called),
        )
        for slot, node, around in walk(tree, Surroundings())
        for kind, new in vary(slot, node, around)
    ]


def is_at_import(around: Surroundings, called: set[str]) -> bool:
    """Whether the import of the file may run it. A lambda outside of every function may be called
    at once, as the key of a sort is.
    """
    return not around.in_function or not around.place or around.place[0] in called


def make_change(
    file: str,
    parent: int,
    found: "tuple[Slot, ast.AST, Surroundings]",
    varied: tuple[str, ast.AST],
    *,
    at_import: bool,
) -> Change:
    slot, node, around = found
    kind, new = varied
    before, after = show(slot, new, around.statement or node)
    return Change(
        file=file,
        place=".".join(around.place),
        line=getattr(node, "lineno", 0),
        kind=kind,
        before=before,
        after=after,
        at_import=at_import,
        parent=parent,
        field_name=slot.field_name,
        position=slot.position,
        new=new,
    )


def apply(text: str, change: Change) -> ast.Module:
    """The syntax tree with the fault in it; every line keeps its number."""
    tree = ast.parse(text)
    parent = list(ast.walk(tree))[change.parent]
    old = getattr(parent, change.field_name)
    new = copy.deepcopy(change.new)
    if change.position is None:
        ast.copy_location(new, old)
        setattr(parent, change.field_name, new)
    else:
        ast.copy_location(new, old[change.position])
        old[change.position] = new
    return ast.fix_missing_locations(tree)


def list_called_at_import(tree: ast.Module) -> set[str]:
    """The functions of a file that its own import may call: what is named outside of functions, and
    what these functions name.
    """
    functions = {one.name: one for one in tree.body if isinstance(one, FUNCTIONS[:2])}
    waiting = list_names(*(one for one in tree.body if one not in functions.values()))
    called: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in functions and name not in called:
            called.add(name)
            waiting |= list_names(functions[name])
    return called


def list_names(*nodes: ast.AST) -> set[str]:
    """The names that are called there; within a class only outside of its methods."""
    names: set[str] = set()
    for node in nodes:
        for child in ast.iter_child_nodes(node):
            if not (isinstance(node, ast.ClassDef) and isinstance(child, FUNCTIONS[:2])):
                names |= list_names(child)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            names.add(node.func.id)
    return names


def walk(node: ast.AST, around: Surroundings) -> Iterator[tuple[Slot, ast.AST, Surroundings]]:
    for name, value in ast.iter_fields(node):
        if name in SILENT_FIELDS or (name == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        # The defaults of a function are computed where it stands, not when it is called.
        inner = around if name == "args" and isinstance(node, FUNCTIONS) else enter(node, around)
        for position, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not is_silent(child):
                within = note_statement(child, inner)
                yield Slot(node, name, position), child, within
                yield from walk(child, within)


def enter(node: ast.AST, around: Surroundings) -> Surroundings:
    if isinstance(node, ast.ClassDef):
        return Surroundings((*around.place, node.name), around.in_function)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returns = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
        return Surroundings((*around.place, node.name), True, returns)
    if isinstance(node, ast.Lambda):
        return Surroundings(around.place, True, False, around.statement)
    return around


def note_statement(node: ast.AST, around: Surroundings) -> Surroundings:
    if not isinstance(node, ast.stmt | ast.match_case):
        return around
    return Surroundings(around.place, around.in_function, around.returns_bool, node)


def is_silent(node: ast.AST) -> bool:
    """Whether nothing in it decides anything."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.JoinedStr() | ast.Import():
            return True
        case ast.Expr(value=value):
            call = value.value if isinstance(value, ast.Await) else value
            return ast.unparse(call).startswith(SILENT_CALLS)
        case ast.ClassDef(bases=bases):
            return any("Protocol" in ast.unparse(base) for base in bases)
        case ast.If(test=test):
            return "TYPE_CHECKING" in ast.unparse(test)
        case ast.keyword(arg=str(name)) | ast.FunctionDef(name=name):
            return name.endswith("examples")
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name.startswith("__") or name.endswith(("EXAMPLE", "EXAMPLES"))
    return False


def vary(slot: Slot, node: ast.AST, around: Surroundings) -> Iterator[tuple[str, ast.AST]]:
    """The faults of one node, each with its kind."""
    match node:
        case ast.Compare():
            yield from vary_comparison(node)
        case ast.BoolOp(op=op, values=values):
            yield "and, or", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", operand
        case ast.BinOp(left=left, op=op, right=right) if is_arithmetic(node):
            yield "arithmetic", ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.Constant(value=bool() as value):
            yield name_constant(slot, "True, False"), ast.Constant(not value)
        case ast.Constant(value=int() | float() as number):
            yield name_constant(slot, "constant"), ast.Constant(number + 1)
            yield name_constant(slot, "constant"), ast.Constant(number - 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            wrong = ast.UnaryOp(ast.Not(), value) if around.returns_bool else ast.Constant(None)
            yield "return", ast.Return(wrong)
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            yield "call dropped", ast.Pass()
        case ast.Raise():
            yield "raise dropped", ast.Pass()
    if is_condition(slot, node):
        yield "not", ast.UnaryOp(ast.Not(), node)


def vary_comparison(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    for number, op in enumerate(node.ops):
        for kind, swapped in SWAPPED[type(op)]:
            ops = [*node.ops[:number], swapped(), *node.ops[number + 1 :]]
            yield kind, ast.Compare(node.left, ops, node.comparators)


def is_condition(slot: Slot, node: ast.AST) -> bool:
    asked = slot.field_name in {"test", "guard"} or (
        slot.field_name == "ifs" and isinstance(slot.parent, ast.comprehension)
    )
    return asked and isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.NamedExpr)


def is_arithmetic(node: ast.BinOp) -> bool:
    return type(node.op) in ARITHMETIC and not (is_text(node.left) or is_text(node.right))


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def name_constant(slot: Slot, kind: str) -> str:
    return "default" if slot.field_name in {"defaults", "kw_defaults"} else kind


def show(slot: Slot, new: ast.AST, statement: ast.AST) -> tuple[str, str]:
    """The first line of the statement without and with the fault, cut to what is around it."""
    before = write_head(statement)
    old = getattr(slot.parent, slot.field_name)
    if slot.position is None:
        setattr(slot.parent, slot.field_name, new)
        after = write_head(new if statement is old else statement)
        setattr(slot.parent, slot.field_name, old)
    else:
        node = old[slot.position]
        old[slot.position] = new
        after = write_head(new if statement is node else statement)
        old[slot.position] = node
    return cut(before, after)


def write_head(statement: ast.AST) -> str:
    """The first line of it, written without what stands below."""
    below = {"body", "orelse", "finalbody", "handlers", "cases", "decorator_list"}
    fields = {
        name: [] if name in below and isinstance(value, list) else value
        for name, value in ast.iter_fields(statement)
    }
    head = ast.copy_location(type(statement)(**fields), statement)
    return ast.unparse(ast.fix_missing_locations(head)).split("\n", 1)[0]


def cut(before: str, after: str, around: int = 60) -> tuple[str, str]:
    same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
    start = max(same - around, 0)
    return tuple(
        ("…" if start else "") + text[start : same + around] + "…" * (len(text) > same + around)
        for text in (before, after)
    )
