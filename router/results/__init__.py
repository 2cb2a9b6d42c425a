"""Workers' results: read, correlated, metered once. It only decides; delivery stores the usage events."""

from router.results.duplicates import Recent, Seen
from router.results.handler import ResultRules, ResultsHandler, ResultsMeter
from router.results.lessons import Lessons, ProviderFigures

__all__ = ["Lessons", "ProviderFigures", "Recent", "ResultRules", "ResultsHandler", "ResultsMeter", "Seen"]
