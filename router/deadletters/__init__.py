"""Dead letters, for whoever reads them: what failed, why, and what it said.

    parse     one stored message -> one Letter, whatever stands in it
    listing   a stream of letters, newest first, filtered

Letters are written by meaning (`contracts.letter`) and stored by delivery; here they are only read.
"""

from router.deadletters.listing import Wanted, newest_first, show
from router.deadletters.parse import Letter, Source, parse

__all__ = ["Letter", "Source", "Wanted", "newest_first", "parse", "show"]
