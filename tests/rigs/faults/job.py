"""What the stage's workers do, and its extensions.

`router worker tests.rigs.faults.job:work`, `router extension serve tests.rigs.faults.job`
"""

from router.contracts.exec_assignment import ExecAssignment
from router.core.errors import Poison
from router.sdk import StepResult
from router.sdk.extension import Request, pre, validator

HEALTHY = "chat"
HOPELESS = "hopeless"  # a job that no worker will ever do


def work(assignment: ExecAssignment) -> StepResult:
    if assignment.job_type == HOPELESS:
        raise Poison("no worker can do this")
    return StepResult(output=assignment.payload, cost=0.001)


@pre("tidy")
def tidy(request: Request) -> object:
    return str(request.payload).strip()


@validator("guard")
def guard(request: Request) -> None:
    """Lets everything pass."""
