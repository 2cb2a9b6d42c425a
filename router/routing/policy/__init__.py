"""Policies: documents become values, and a value with a request becomes a decision. Pure: no clock, file or log in here.

    bytes ── load_policy ──> Policy ── PolicyTable ──> evaluate(policy, request, states, now) ──> Decision | Refusal
                                                     ^ Sessions: remembered choices; RateLimits, SharedRates: checked before

Running extensions, measuring providers and storing documents belong to other rooms.
"""

from router.routing.policy.averages import Averages
from router.routing.policy.breakers import ProviderBreakers, RemoteTransition
from router.routing.policy.canary import find_arm, parse_record, select_arm
from router.routing.policy.compare import CHANGED, UNCHANGED, UNCLEAR, Choice, Comparison, compare
from router.routing.policy.engine import evaluate, read_session
from router.routing.policy.fields import PolicyError
from router.routing.policy.limited_providers import LimitedProviders
from router.routing.policy.lint import lint
from router.routing.policy.model import PolicyFinding, StickySessions
from router.routing.policy.narrowed import StatesBehindBreakers
from router.routing.policy.parse import ParsedPolicy, load_policy, parse_policy
from router.routing.policy.plan import DEFAULT_COST, PROBE
from router.routing.policy.policy import SHARED, Policy, PolicyCanary, PolicyFinder, PolicyTable, list_arms
from router.routing.policy.providers import ProviderTracker
from router.routing.policy.rate_closure import LimitRules
from router.routing.policy.rate_limits import RateLimiter, RateLimits, TokensTaken, take_tokens
from router.routing.policy.reevaluation import RecordedDecision, Reevaluation, is_same_choice, reevaluate
from router.routing.policy.sessions import Sessions
from router.routing.policy.shadow import evaluate_shadow
from router.routing.policy.shared_rates import RateShort, RateSlice, SharedRates
from router.routing.policy.states import ATTEMPTS, NO_STATES, AverageStates, PreviousAttempt, ProviderState, ProviderStates, TraceStep

__all__ = [
    "ATTEMPTS",
    "CHANGED",
    "DEFAULT_COST",
    "NO_STATES",
    "PROBE",
    "SHARED",
    "UNCHANGED",
    "UNCLEAR",
    "AverageStates",
    "Averages",
    "Choice",
    "Comparison",
    "LimitRules",
    "LimitedProviders",
    "ParsedPolicy",
    "Policy",
    "PolicyCanary",
    "PolicyError",
    "PolicyFinder",
    "PolicyFinding",
    "PolicyTable",
    "PreviousAttempt",
    "ProviderBreakers",
    "ProviderState",
    "ProviderStates",
    "ProviderTracker",
    "RateLimiter",
    "RateLimits",
    "RateShort",
    "RateSlice",
    "RecordedDecision",
    "Reevaluation",
    "RemoteTransition",
    "Sessions",
    "SharedRates",
    "StatesBehindBreakers",
    "StickySessions",
    "TokensTaken",
    "TraceStep",
    "compare",
    "evaluate",
    "evaluate_shadow",
    "find_arm",
    "is_same_choice",
    "lint",
    "list_arms",
    "load_policy",
    "parse_policy",
    "parse_record",
    "read_session",
    "reevaluate",
    "select_arm",
    "take_tokens",
]
