"""Policies: documents become values, and a value with a request becomes a decision. Pure: no clock, file or log in here.

    bytes ── load_policy ──> Policy ── Shelf ──> evaluate(policy, request, states, now) ──> Decision | Refusal
                                                     ^ Sessions: remembered choices; RateLimits: asked before

Running extensions, measuring providers and storing documents belong to other rooms.
"""

from router.policy.averages import Averages
from router.policy.engine import evaluate, session_of
from router.policy.fields import PolicyError
from router.policy.lint import lint
from router.policy.model import Finding, Sticky
from router.policy.parse import ParsedPolicy, load_policy, parse_policy
from router.policy.policy import SHARED, Policies, Policy
from router.policy.rates import RateLimits
from router.policy.sessions import Sessions
from router.policy.shelf import Shelf
from router.policy.states import NO_STATES, Previous, ProviderState, ProviderStates, Step

__all__ = [
    "NO_STATES",
    "SHARED",
    "Averages",
    "Finding",
    "ParsedPolicy",
    "Policies",
    "Policy",
    "PolicyError",
    "Previous",
    "ProviderState",
    "ProviderStates",
    "RateLimits",
    "Sessions",
    "Shelf",
    "Step",
    "Sticky",
    "evaluate",
    "lint",
    "load_policy",
    "parse_policy",
    "session_of",
]
