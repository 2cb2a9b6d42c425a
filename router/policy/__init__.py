"""Policies: documents become values, and a value with a request becomes a decision. Pure: no clock, file or log in here.

    bytes ── load_policy ──> Policy ── PolicyTable ──> evaluate(policy, request, states, now) ──> Decision | Refusal
                                                     ^ Sessions: remembered choices; RateLimits: checked before

Running extensions, measuring providers and storing documents belong to other rooms.
"""

from router.policy.averages import Averages
from router.policy.breakers import ProviderBreakers, RemoteTransition
from router.policy.compare import CHANGED, UNCHANGED, UNCLEAR, Choice, Comparison, compare
from router.policy.engine import evaluate, session_of
from router.policy.fields import PolicyError
from router.policy.lint import lint
from router.policy.model import PolicyFinding, StickySessions
from router.policy.parse import ParsedPolicy, load_policy, parse_policy
from router.policy.policy import SHARED, Policy, PolicyFinder
from router.policy.providers import ProviderTracker
from router.policy.rate_limits import RateLimits
from router.policy.reevaluation import RecordedDecision, Reevaluation, is_same_choice, reevaluate
from router.policy.sessions import Sessions
from router.policy.states import ATTEMPTS, NO_STATES, PreviousAttempt, ProviderState, ProviderStates, TraceStep
from router.policy.table import PolicyTable

__all__ = [
    "ATTEMPTS",
    "CHANGED",
    "NO_STATES",
    "SHARED",
    "UNCHANGED",
    "UNCLEAR",
    "Averages",
    "Choice",
    "Comparison",
    "ParsedPolicy",
    "Policy",
    "PolicyError",
    "PolicyFinder",
    "PolicyFinding",
    "PolicyTable",
    "PreviousAttempt",
    "ProviderBreakers",
    "ProviderState",
    "ProviderStates",
    "ProviderTracker",
    "RateLimits",
    "RecordedDecision",
    "Reevaluation",
    "RemoteTransition",
    "Sessions",
    "StickySessions",
    "TraceStep",
    "compare",
    "evaluate",
    "is_same_choice",
    "lint",
    "load_policy",
    "parse_policy",
    "reevaluate",
    "session_of",
]
