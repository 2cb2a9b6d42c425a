"""Results of workers: read, correlated, metered once. Meaning only; delivery stores what they cost."""

from router.results.duplicates import Recent, Seen
from router.results.handler import ResultRules, ResultsHandler, ResultsMeter
from router.results.lessons import Lessons, ProviderFigures

__all__ = ["Lessons", "ProviderFigures", "Recent", "ResultRules", "ResultsHandler", "ResultsMeter", "Seen"]
