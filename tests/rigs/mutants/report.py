"""What was found, as lines and as a page."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.rigs.mutants.trial import ALIVE, Finding, Verdict

ABOUT = (
    "Made by `python -m tests.rigs.mutants` (`make mutants`): one small fault at a time is put into",
    "what decides, and the nearest test files by imports run. Stories, rigs and whole programs are",
    "not among them: what decides is to be held by tests of its own. A test that fails without the",
    "mutant as well is not believed. Judged mutants are those of `tests/rigs/mutants/judged.toml`;",
    "the share is of all others.",
)


def share_alive(findings: Sequence[Finding]) -> float:
    """Of the mutants that were tried and are not judged, the share that no test noticed."""
    asked = [one for one in findings if one.verdict not in {Verdict.JUDGED, Verdict.UNCLEAR}]
    alive = sum(one.verdict in ALIVE for one in asked)
    return alive / len(asked) if asked else 0.0


def tell(finding: Finding) -> str:
    match finding.verdict:
        case Verdict.KILLED:
            more = f" by {finding.by}"
        case Verdict.SURVIVED:
            more = f" {finding.ran} tests of {len(finding.files)} files"
        case Verdict.JUDGED:
            more = f" {finding.reason}"
        case _:
            more = ""
    return f"{finding.verdict}:{more}  {finding.change}"


def summarise(findings: Sequence[Finding]) -> str:
    counts = Counter(one.verdict for one in findings)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    return f"{len(findings)} mutants: {told}; {share_alive(findings):.1%} survive"


def write_page(findings: Sequence[Finding], facts: Mapping[str, str]) -> str:
    lines = ["# Mutants of what decides", ""]
    lines += [*ABOUT, ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += [f"- {summarise(findings)}", "", *write_rooms(findings)]
    for verdict in (Verdict.SURVIVED, Verdict.NO_TEST, Verdict.UNCLEAR, Verdict.JUDGED):
        chosen = [one for one in findings if one.verdict is verdict]
        if chosen:
            lines += ["", f"## {str(verdict).capitalize()}", ""]
            lines += [write_finding(one) for one in chosen]
    return "\n".join([*lines, ""])


def write_rooms(findings: Sequence[Finding]) -> list[str]:
    columns = list(Verdict)
    rooms: dict[str, Counter[Verdict]] = {}
    for one in findings:
        rooms.setdefault(one.change.file.split("/")[1], Counter())[one.verdict] += 1
    return [
        f"| room | mutants | {' | '.join(columns)} |",
        f"|---|{'---:|' * (len(columns) + 1)}",
        *(
            f"| {room} | {counts.total()} | {' | '.join(str(counts[one]) for one in columns)} |"
            for room, counts in sorted(rooms.items())
        ),
    ]


def write_finding(finding: Finding) -> str:
    change = finding.change
    text = f"- `{change.file}:{change.line}` {change.place}: `{change.before}` → `{change.after}`"
    return f"{text}: {finding.reason}" if finding.reason else text
