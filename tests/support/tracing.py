"""An OpenTelemetry SDK in memory, for one test alone, and its spans drawn as a tree."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """What was told so far."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> list[ReadableSpan]:
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def traces(self) -> set[int]:
        return {span.context.trace_id for span in self.all if span.context is not None}

    def told(self) -> str:
        """Everything that an exporter would send."""
        return "\n".join(span.to_json() for span in self.all)


@contextmanager
def record_spans() -> Iterator[Spans]:
    """The process has an SDK meanwhile; afterwards it is as if there had been none."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    before = trace._TRACER_PROVIDER
    trace._TRACER_PROVIDER = provider
    try:
        yield Spans(exporter)
    finally:
        trace._TRACER_PROVIDER = before
        provider.shutdown()


def draw_tree(spans: Sequence[ReadableSpan]) -> str:
    """As a tree, oldest first; what has no parent among them is a root, and says which trace it is
    linked to.
    """
    ids = {span.context.span_id for span in spans if span.context is not None}
    roots = [span for span in spans if span.parent is None or span.parent.span_id not in ids]
    return "\n".join(line for root in roots for line in _lines(root, spans, "", ""))


def _lines(
    span: ReadableSpan, spans: Sequence[ReadableSpan], mark: str, lead: str
) -> Iterator[str]:
    linked = "".join(f"   ~ linked to {link.context.trace_id:032x}"[:26] for link in span.links)
    yield f"{mark}{span.name}{linked}"
    below = [
        child
        for child in spans
        if child.parent is not None
        and span.context is not None
        and child.parent.span_id == span.context.span_id
    ]
    for child in below:
        is_last = child is below[-1]
        yield from _lines(
            child,
            spans,
            lead + ("└── " if is_last else "├── "),
            lead + ("    " if is_last else "│   "),
        )
