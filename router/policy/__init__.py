"""Policies: documents become values, and a value with a request becomes a decision. Pure: no clock, file or log in here.

    bytes ── load_policy ──> Policy ── Shelf ──> evaluate(policy, request, states, now) ──> Decision | Refusal
                                                     ^ Sessions: remembered choices; RateLimits: asked before

Running extensions, measuring providers and storing documents belong to other rooms.
"""

from router.policy.averages import Averages
from router.policy.breakers import ProviderBreakers, Told
from router.policy.case import Again, Case, again, is_same_choice
from router.policy.compare import CHANGED, UNCHANGED, UNCLEAR, Choice, Compared, compare
from router.policy.engine import evaluate, session_of
from router.policy.fields import PolicyError
from router.policy.lint import lint
from router.policy.model import Finding, Sticky
from router.policy.parse import ParsedPolicy, load_policy, parse_policy
from router.policy.policy import SHARED, Policies, Policy
from router.policy.providers import Providers
from router.policy.rates import RateLimits
from router.policy.sessions import Sessions
from router.policy.shelf import Shelf
from router.policy.states import ATTEMPTS, NO_STATES, Previous, ProviderState, ProviderStates, Step

__all__ = [
    "ATTEMPTS",
    "CHANGED",
    "NO_STATES",
    "SHARED",
    "UNCHANGED",
    "UNCLEAR",
    "Again",
    "Averages",
    "Case",
    "Choice",
    "Compared",
    "Finding",
    "ParsedPolicy",
    "Policies",
    "Policy",
    "PolicyError",
    "Previous",
    "ProviderBreakers",
    "ProviderState",
    "ProviderStates",
    "Providers",
    "RateLimits",
    "Sessions",
    "Shelf",
    "Step",
    "Sticky",
    "Told",
    "again",
    "compare",
    "evaluate",
    "is_same_choice",
    "lint",
    "load_policy",
    "parse_policy",
    "session_of",
]
