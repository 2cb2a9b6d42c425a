"""The libraries in the package are those that VENDORED.md names."""

import hashlib
import re
from pathlib import Path

import router.console

VENDOR = Path(router.console.__file__).parent / "static" / "vendor"


def test_every_file_is_listed_with_its_hash_and_its_licence() -> None:
    listed = re.findall(
        r"\| `([^`]+)` \| .*`([^`]+\.LICENSE)` \| `([0-9a-f]{64})` \|",
        (VENDOR / "VENDORED.md").read_text(),
    )
    assert {name: digest for name, _, digest in listed} == {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in VENDOR.iterdir()
        if file.suffix in (".js", ".css")
    }
    assert all((VENDOR / licence).read_text().strip() for _, licence, _ in listed)
