"""What other people import: `from router import Client`.

answer   what a decide request is answered with, typed
client   asking, from Python
"""

from router.sdk.answer import Answer
from router.sdk.client import Client

__all__ = ["Answer", "Client"]
