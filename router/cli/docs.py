"""`router docs`: the pages that the package brings, in a browser."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.command import CommandSession, command, skip_settings
from router.cli.open_browser import open_browser
from router.cli.options import HttpPort

if TYPE_CHECKING:
    from pathlib import Path
