"""Results of workers: read, correlated, metered once. Meaning only; delivery stores what they cost."""

from router.results.duplicates import Recent, Seen
from router.results.handler import ProviderFigures, ResultRules, ResultsHandler, ResultsMeter

__all__ = ["ProviderFigures", "Recent", "ResultRules", "ResultsHandler", "ResultsMeter", "Seen"]
