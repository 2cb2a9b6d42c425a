"""Policies: documents become values, and a value with a request becomes a decision. Pure: no clock,
file or log in here.

    bytes ── load_policy ──> Policy ── PolicyTable ──> evaluate(policy, request, states, now) ──> Decision | Refusal
                                                     ^ Sessions: remembered choices; RateLimits,
                                                     SharedRates: checked before

Running extensions, measuring providers and storing documents belong to other rooms.
"""

from router.policies.model.breakers import ProviderBreakers, RemoteTransition
from router.policies.model.canary import evaluate_shadow, find_arm, parse_record, select_arm
from router.policies.model.engine import evaluate, read_session
from router.policies.model.fields import PolicyError
from router.policies.model.lint import lint
from router.policies.model.narrowed import (
    ATTEMPTS,
    NO_STATES,
    AverageStates,
    PreviousAttempt,
    ProviderState,
    ProviderStates,
    StatesBehindBreakers,
    TraceStep,
)
from router.policies.model.parse import ParsedPolicy, load_policy, parse_policy
from router.policies.model.policy import (
    DEFAULT_COST,
    PROBE,
    SHARED,
    Policy,
    PolicyCanary,
    PolicyFinder,
    PolicyFinding,
    PolicyTable,
    StickySessions,
    list_arms,
)
from router.policies.model.providers import Averages, LimitedProviders, ProviderTracker, Sessions
from router.policies.model.rate_limits import (
    RateLimiter,
    RateLimits,
    RateShort,
    RateSlice,
    SharedRates,
    TokensTaken,
    take_tokens,
)
from router.policies.model.reevaluation import (
    CHANGED,
    UNCHANGED,
    UNCLEAR,
    Choice,
    Comparison,
    RecordedDecision,
    Reevaluation,
    compare,
    is_same_choice,
    reevaluate,
)

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
