"""What spark-submit starts: `router usage ingest` with the arguments that follow, in the session
that spark-submit made.
"""

import sys

from router.cli import main

sys.argv[1:1] = ["usage", "ingest"]
main()
