"""Property tests whose examples are the same in each run, whichever modules are loaded.

Hypothesis mixes constants of this repository's modules into its examples: of those that are loaded
by then. Which these are depends on the tests that the same process ran before, so a property that is
false for one of them failed in one run of many. `--hypothesis-profile search` goes on looking for
such examples.
"""

from hypothesis import settings
from hypothesis.internal.conjecture import providers

_NO_CONSTANTS = providers.Constants()
_collect_constants = providers._get_local_constants


def use_same_examples() -> None:
    """From here on, in every run of a profile that is derandomized."""
    providers._get_local_constants = _get_constants


def _get_constants() -> providers.Constants:
    is_same = settings.default is not None and settings.default.derandomize
    return _NO_CONSTANTS if is_same else _collect_constants()
