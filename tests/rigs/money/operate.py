"""An operator's commands, run in the code that is tried: a list of argument lists on standard
input, what each said on standard output.

Started by the path of this file, so that `router` is what PYTHONPATH names, and in one process, for
starting one costs a second.
"""

import json
import sys

from typer.testing import CliRunner

from router.cli.app import app


def main() -> None:
    said = []
    for arguments in json.load(sys.stdin):
        result = CliRunner().invoke(app, arguments)
        failure = (
            ""
            if result.exception is None or isinstance(result.exception, SystemExit)
            else repr(result.exception)
        )
        said.append(
            {"status": result.exit_code, "out": result.stdout, "err": result.stderr + failure}
        )
    print(json.dumps(said), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main()
