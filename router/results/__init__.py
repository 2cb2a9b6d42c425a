"""Workers' results: read, correlated, metered once. It only decides; delivery stores the usage events."""

from router.results.duplicates import RecentOutcomes, Repetition
from router.results.first_results import FirstResults, ProviderFigures
from router.results.handler import ResultRules, ResultsHandler, ResultsMeter

__all__ = ["FirstResults", "ProviderFigures", "RecentOutcomes", "Repetition", "ResultRules", "ResultsHandler", "ResultsMeter"]
