"""Generated code: from proto/ to router/contracts/pb, or a check that both still agree.

    python proto/generate.py            write it
    python proto/generate.py --check    exit 1 and name what differs, write nothing
    python proto/generate.py --out DIR  write it somewhere else

The modules and their type stubs, no gRPC: the services stand in proto/ for those who call us by
them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
COMMITTED = PROTO.parent / "router" / "contracts" / "pb"
PACKAGE = '"""Generated from proto/ by `make proto`; never edited by hand."""\n'


def main() -> int:
    arguments = _arguments()
    if not arguments.check:
        generate(arguments.out)
        return 0
    stale = differences(COMMITTED)
    for path in stale:
        print(f"stale: {path} (run `make proto`)", file=sys.stderr)
    return 1 if stale else 0


def generate(out: Path) -> None:
    """Write every module, its stub and the packages around them below `out`."""
    out.mkdir(parents=True, exist_ok=True)
    sources = sorted(str(path.relative_to(PROTO)) for path in PROTO.rglob("*.proto"))
    status = protoc.main(
        ["protoc", f"-I{PROTO}", f"--python_out={out}", f"--pyi_out={out}", *sources]
    )
    if status != 0:
        raise SystemExit(status)
    for folder in {
        parent
        for path in out.rglob("*_pb2.py")
        for parent in path.parents
        if parent.is_relative_to(out)
    }:
        (folder / "__init__.py").write_text(PACKAGE)


def differences(committed: Path) -> list[str]:
    """The generated files that are missing, left over or of other content than proto/ would give
    now.
    """
    with tempfile.TemporaryDirectory() as fresh:
        generate(Path(fresh))
        wanted, present = _contents(Path(fresh)), _contents(committed)
    return sorted(
        name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name)
    )


def _contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*.py*")
        if path.suffix in {".py", ".pyi"}
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Generate router/contracts/pb from proto/.")
    parser.add_argument(
        "--check", action="store_true", help="only compare; exit 1 if something differs"
    )
    parser.add_argument(
        "--out", type=Path, default=COMMITTED, help="where to write (default: router/contracts/pb)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
