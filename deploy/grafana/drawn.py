"""How Grafana wants to be told of a board: its JSON model, version 41 (Grafana 12; an older one is
asked to migrate nothing).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parts import Board, Panel, Query

Json = dict[str, Any]

SCHEMA = 41
WIDTH = 24  # columns of Grafana's grid
HIGH, LOW = 8, 4  # a picture's rows, a number's
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
TYPES = {
    "lines": "timeseries",
    "stacked": "timeseries",
    "number": "stat",
    "states": "state-timeline",
}


def drawn(board: Board) -> Json:
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.says,
        "tags": ["router"],
        "schemaVersion": SCHEMA,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "tags": ["router"],
                "title": "Router",
                "asDropdown": True,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": [_datasource(), _instance()]},
        "annotations": {"list": [_alerts()]},
        "panels": list(_panels(board)),
    }


def _panels(board: Board) -> Iterator[Json]:
    number, y = 0, 0
    for row in board.rows:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": _at(0, y, WIDTH, 1),
            "panels": [],
        }
        y += 1
        for place, one in _places(row.panels, y):
            number += 1
            yield {"id": number, "gridPos": place, **_panel(one)}
            y = max(y, place["y"])
        y += HIGH if any(one.kind != "number" for one in row.panels) else LOW


def _places(panels: tuple[Panel, ...], y: int) -> Iterator[tuple[Json, Panel]]:
    """Side by side, at most four pictures or eight numbers in a line."""
    is_small = all(one.kind == "number" for one in panels)
    most, height = (8, LOW) if is_small else (4, HIGH)
    lines = -(-len(panels) // most)
    each = -(-len(panels) // lines)
    for index, one in enumerate(panels):
        yield (
            _at(
                WIDTH // each * (index % each), y + height * (index // each), WIDTH // each, height
            ),
            one,
        )


def _panel(panel: Panel) -> Json:
    return {
        "type": TYPES[panel.kind],
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "targets": [
            _target(query, chr(ord("A") + index)) for index, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }


def _target(query: Query, ref: str) -> Json:
    return {
        "refId": ref,
        "datasource": SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend,
        "editorMode": "code",
        "range": True,
    }


def _defaults(panel: Panel) -> Json:
    steps = [{"value": value, "color": colour} for value, colour in panel.steps]
    shared: Json = {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
        "noValue": "none",
    }
    if panel.kind in ("number", "states"):
        return {**shared, "color": {"mode": "thresholds"}}
    stacking = {"mode": "normal" if panel.kind == "stacked" else "none", "group": "A"}
    look = {
        "lineWidth": 1,
        "fillOpacity": 30 if panel.kind == "stacked" else 8,
        "showPoints": "never",
        "stacking": stacking,
    }
    return {**shared, "min": 0, "color": {"mode": "palette-classic"}, "custom": look}


def _options(panel: Panel) -> Json:
    if panel.kind == "number":
        last = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        return {
            "reduceOptions": last,
            "colorMode": "value",
            "graphMode": "none",
            "textMode": "value_and_name",
        }
    if panel.kind == "states":
        return {
            "mergeValues": True,
            "showValue": "never",
            "rowHeight": 0.8,
            "legend": {"showLegend": False},
        }
    legend = {
        "displayMode": "table",
        "placement": "bottom",
        "showLegend": True,
        "calcs": ["lastNotNull", "max"],
    }
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}


def _at(x: int, y: int, w: int, h: int) -> Json:
    return {"x": x, "y": y, "w": w, "h": h}


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "hide": 0,
        "current": {},
    }


def _instance() -> Json:
    query = "label_values(router_build_info, instance)"
    asked = {"query": query, "refId": "instance"}
    every = {"text": ["All"], "value": ["$__all"]}
    kind = {
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": asked,
        "refresh": 2,
        "sort": 1,
    }
    return {
        "name": "instance",
        "label": "Instance",
        **kind,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": every,
    }


def _alerts() -> Json:
    """What fired, as marks over every picture."""
    expr = 'ALERTS{alertstate="firing", severity=~"critical|warning"}'
    shown = {
        "titleFormat": "{{alertname}}",
        "textFormat": "{{severity}}",
        "iconColor": "red",
        "step": "15s",
    }
    return {"name": "Alerts", "datasource": SOURCE, "enable": True, "expr": expr, **shown}
