"""Wheel and source distribution, built and tried: `make dist`.

The wheel is built from the unpacked source distribution, not from the repository, so what is
missing there is missed here. Then each Python from 3.11 to 3.14 that this machine has tries the
wheel in an empty environment (trial.py), and a table says how it went.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
FIRST_MINUTE_S = 60

sys.path.insert(0, str(Path(__file__).parent))  # run as a file: its neighbours

from contents import check_sdist, check_wheel  # noqa: E402
from trial import Trial, try_wheel  # noqa: E402


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--into", type=Path, default=ROOT / "dist")
    options.add_argument("--no-trial", action="store_true", help="build and check alone")
    given = options.parse_args()
    shutil.rmtree(given.into, ignore_errors=True)
    sdist, wheel = build(given.into)
    faults = [
        *(f"{sdist.name}: {one}" for one in check_sdist(sdist)),
        *(f"{wheel.name}: {one}" for one in check_wheel(wheel)),
    ]
    for file in (sdist, wheel):
        print(f"{file.stat().st_size / 1000:8.0f} kB  {file}")
    if not given.no_trial:
        for version in VERSIONS:
            faults += try_version(version, wheel)
    for fault in faults:
        print(f"wrong: {fault}", file=sys.stderr)
    return 1 if faults else 0


def build(into: Path) -> tuple[Path, Path]:
    """Build both into this directory, and return their files: absolute, since each build and each
    trial stands elsewhere.
    """
    into = into.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        _build("sdist", ROOT, into)
        (sdist,) = into.glob("*.tar.gz")
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        (source,) = Path(scratch).iterdir()
        _build("wheel", source, into)
    (wheel,) = into.glob("*.whl")
    return sdist, wheel


def _build(target: str, source: Path, into: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        target,
        "--directory",
        str(into),
    ]
    subprocess.run(command, cwd=source, check=True, stdout=subprocess.DEVNULL)


def try_version(version: str, wheel: Path) -> list[str]:
    """Try the wheel with this Python, print how it went, and return what was wrong."""
    python = next(find_pythons(version), None)
    if python is None:
        print(f"Python {version}: not on this machine, not tried")
        return []
    trial = try_wheel(python, wheel, ROOT / "constraints.txt")
    print_trial(trial)
    return [f"Python {version}: {one}" for one in trial.faults]


def find_pythons(version: str) -> Iterator[str]:
    """Pythons of this version that run: on the path, or one of pyenv's, whose shims on the path run
    only where they are chosen.
    """
    places = [
        shutil.which(f"python{version}"),
        *map(
            str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"), reverse=True)
        ),
    ]
    for place in filter(None, places):
        if (
            subprocess.run(
                [place, "-c", "import venv, ensurepip"], capture_output=True, check=False
            ).returncode
            == 0
        ):
            yield place


def print_trial(trial: Trial) -> None:
    print(f"{trial.version or trial.python}: {'as it should be' if not trial.faults else 'WRONG'}")
    print("    " + ", ".join(f"{step} {seconds:.1f} s" for step, seconds in trial.steps.items()))
    slow = (
        ""
        if trial.first_minute_s <= FIRST_MINUTE_S
        else f", above {FIRST_MINUTE_S}: is the machine busy, or the index far away?"
    )
    print(
        "    to the first decision (venv, install, serve, decide): "
        f"{trial.first_minute_s:.1f} s{slow}"
    )


if __name__ == "__main__":
    sys.exit(main())
