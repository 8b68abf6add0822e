"""Charts by Vega-Lite, which comes with Streamlit and follows its theme. Each has its numbers as text beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from fxopt.evidence import LatencyReport
from fxopt.evidence.blocks import Block
from fxopt.evidence.depth import DepthReport
from fxopt.evidence.latency_by_size import LatencyBySize
from fxopt.ui.events import MOST_TEXT, sent_by
from fxopt.ui.panel import redraw
from fxopt.ui.session import Session

REWRITTEN = "#e69f00"
"""The color of a change, as in the graph."""
LEAST_ERROR = 1e-9
"""The bottom of the axis of errors: there stand nodes with the same bits."""
LETTERS = 130
"""So many letters fit beside each other in a chart as wide as the drawer of a small window."""


def latency_chart(report: LatencyReport) -> None:
    """Draw the interval of the ratio and that of the control, and each round."""
    rows = []
    for one in report.rounds:
        rows += [("With the passes", one.before / one.after), ("Original again", one.before / one.control)]
    intervals = [
        {"of": "With the passes", "low": report.low, "high": report.high, "ratio": report.ratio},
        {"of": "Original again", "low": report.control_low, "high": report.control_high},
    ]
    y = {"field": "of", "type": "nominal", "title": None, "sort": None}
    x = {"type": "quantitative", "scale": {"zero": False}, "title": "times as fast as the original"}
    spec = {
        "height": 150,
        "layer": [
            {
                "data": {"values": [{"ratio": 1}]},
                "mark": {"type": "rule", "strokeDash": [4, 4], "color": "currentColor"},
                "encoding": {"x": {**x, "field": "ratio"}},
            },
            {
                "mark": {"type": "tick", "opacity": 0.55, "tooltip": True},
                "encoding": {"x": {**x, "field": "ratio"}, "y": y},
            },
            {
                "data": {"values": intervals},
                "mark": {"type": "bar", "height": 5, "tooltip": True},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y},
            },
            {
                "data": {"values": intervals[:1]},
                "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1, "tooltip": True},
                "encoding": {"x": {**x, "field": "ratio"}, "y": y},
            },
        ],
    }
    alt = f"Intervals of the latency: {report.verdict}; the original against itself "
    alt += f"[{report.control_low:.2f}, {report.control_high:.2f}]"
    st.vega_lite_chart(pd.DataFrame(rows, columns=["of", "ratio"]), spec, key="latency chart", alt=alt)


VERDICTS = {"faster": "triangle-up", "no difference shown": "circle", "slower": "triangle-down"}
"""The shapes of the marks at each size."""


def sizes_chart(found: LatencyBySize) -> None:
    """Draw the ratio at each size with its interval: the batch across, a color for each sequence."""
    rows = [
        {
            "batch": one.batch,
            "sequence": one.sequence,
            "verdict": one.kind,
            "ratio": one.report.ratio,
            "low": one.report.low,
            "high": one.report.high,
            "told": f"{one.name}: {one.report.verdict}",
        }
        for one in found.measured
        if one.report is not None
    ]
    beside: dict[str, Any] = {"field": "sequence", "type": "ordinal"} if rows[0]["sequence"] is not None else {}
    x = {"field": "batch", "type": "ordinal", "axis": {"labelAngle": 0}}
    y = {"type": "quantitative", "scale": {"zero": False}, "title": "times as fast"}
    common = {"x": x, "tooltip": {"field": "told"}}
    if beside:
        colors = {"scheme": "viridis", "extent": [0.2, 0.8]}
        common |= {"xOffset": beside, "color": {**beside, "scale": colors, "title": "sequence"}}
    spec = {
        "height": 190,
        "layer": [
            {
                "data": {"values": [{"ratio": 1}]},
                "mark": {"type": "rule", "strokeDash": [4, 4], "color": "currentColor"},
                "encoding": {"y": {**y, "field": "ratio"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 3},
                "encoding": {**common, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1},
                "encoding": {
                    **common,
                    "y": {**y, "field": "ratio"},
                    "shape": {
                        "field": "verdict",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": list(VERDICTS), "range": list(VERDICTS.values())},
                    },
                },
            },
        ],
    }
    st.vega_lite_chart(pd.DataFrame(rows), spec, key="sizes chart", alt=f"Latency by size: {found.verdict}")


def depth_chart(session: Session, report: DepthReport) -> None:
    """Draw the error of each node in the order of the run; a click on one calls for it (`picked`)."""
    frame = depth_frame(report)
    spec = {
        "height": 250,
        "params": [{"name": "pick", "select": {"type": "point", "fields": ["node"], "on": "click"}}],
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1, "cursor": "pointer"},
        "encoding": {
            "x": {"field": "position", "type": "quantitative", "title": "node, in the order of the run"},
            "y": {
                "field": "error",
                "type": "quantitative",
                "scale": {"type": "log"},
                "axis": {"format": ".0e", "tickCount": 5},
                "title": "relative error",
            },
            "color": {
                "field": "value",
                "type": "nominal",
                "title": None,
                "scale": {"domain": list(KINDS), "range": list(KINDS.values())},
                "legend": {"orient": "top"},
            },
            "shape": {
                "field": "value",
                "type": "nominal",
                "scale": {"domain": list(KINDS), "range": ["circle", "cross", "diamond", "triangle-up"]},
            },
            "tooltip": [
                {"field": "node"},
                {"field": "relative error", "type": "quantitative", "format": ".2e"},
                {"field": "max abs error", "type": "quantitative", "format": ".2e"},
                {"field": "value"},
            ],
        },
    }
    _clickable(session, frame, spec, "depth chart", f"Error by depth: {report.verdict}")


KINDS = {
    "other bits": "#3f86e0",
    "the same bits": "#7d8794",
    "rewritten by a pass": REWRITTEN,
    "NaN or infinite": "#d5493a",
}


def depth_frame(report: DepthReport) -> pd.DataFrame:
    """Return the rows of the chart. A node that is NaN or infinite in one graph only stands above all others."""
    frame = report.frame
    errors = frame["relative error"]
    finite = errors[errors < math.inf]
    top = 10 * max([LEAST_ERROR, *finite])
    frame["error"] = errors.clip(lower=LEAST_ERROR, upper=top)
    frame["value"] = [
        "NaN or infinite" if one.turned else
        "rewritten by a pass" if one.rewritten else
        "the same bits" if one.difference.identical else "other bits"
        for one in report.nodes
    ]  # fmt: skip
    return frame


def blocks_chart(session: Session, blocks: Sequence[Block], told: Callable[[int], str], alt: str) -> None:
    """Draw a cost by module as nested blocks; a click on one calls for it (`picked`)."""
    rows = [
        (
            f"{'' if one.is_node else '@'}{one.name}",
            one.name or "the whole model",
            one.kind,
            one.start,
            one.start + one.share,
            one.depth,
            one.depth + 0.94,
            f"{told(one.amount)}, {one.share:.1%}",
            _fitting(one),
            "node" if one.is_node else "module",
        )
        for one in blocks
    ]
    columns = ["pick", "name", "calls", "start", "end", "top", "bottom", "cost", "label", "part"]
    x = {"type": "quantitative", "scale": {"domain": [0, 1]}, "axis": None}
    y = {"type": "quantitative", "scale": {"reverse": True, "nice": False, "zero": False}, "axis": None}
    spec = {
        "height": 26 * (1 + max(one.depth for one in blocks)) + 10,
        "params": [],
        "layer": [
            {
                "params": [{"name": "pick", "select": {"type": "point", "fields": ["pick"], "on": "click"}}],
                "mark": {"type": "rect", "cornerRadius": 3, "strokeWidth": 1, "cursor": "pointer"},
                "encoding": {
                    "x": {**x, "field": "start"},
                    "x2": {"field": "end"},
                    "y": {**y, "field": "top"},
                    "y2": {"field": "bottom"},
                    "color": {
                        "field": "part",
                        "type": "nominal",
                        "scale": {"domain": ["module", "node"], "range": ["#7d8794", "#3f86e0"]},
                        "legend": None,
                    },
                    "stroke": {"field": "part", "scale": {"range": ["#7d8794", "#3f86e0"]}, "legend": None},
                    "fillOpacity": {"value": 0.22},
                    "tooltip": [{"field": name} for name in ("name", "calls", "cost")],
                },
            },
            {
                "transform": [{"calculate": "datum.start + 0.004", "as": "left"},
                              {"calculate": "(datum.top + datum.bottom) / 2", "as": "middle"}],
                "mark": {"type": "text", "align": "left", "baseline": "middle", "color": "currentColor"},
                "encoding": {
                    "x": {**x, "field": "left"},
                    "y": {**y, "field": "middle"},
                    "text": {"field": "label"},
                },
            },
        ],
    }  # fmt: skip
    _clickable(session, pd.DataFrame(rows, columns=columns), spec, "blocks chart", alt)


def _fitting(block: Block) -> str:
    """Return as much of the name of a block as fits in it: its end, which tells it from its neighbors."""
    name = block.name if block.is_node else block.name.rpartition(".")[2] or "the whole model"
    most = int(block.share * LETTERS) - 1
    text = f"{name} {block.share:.0%}"
    return text if len(text) <= most else name if len(name) <= most else f"{name[: most - 1]}…" if most > 4 else ""


def picked(key: str, field: str) -> str | None:
    """Return the `field` of the mark that was clicked in a chart since the last call; None where there is none.

    The message comes from the browser: the thing that it names may be missing.
    """
    selection = sent_by(key, "selection")
    points = selection.get("pick") if isinstance(selection, Mapping) else None
    first = points[0] if isinstance(points, list) and points else None
    name = first.get(field) if isinstance(first, Mapping) else None
    name = name if isinstance(name, str) and len(name) <= MOST_TEXT else ""
    before = st.session_state.get(f"picked in {key}", "")
    st.session_state[f"picked in {key}"] = name
    return name if name and name != before else None


def _clickable(session: Session, frame: pd.DataFrame, spec: dict[str, Any], key: str, alt: str) -> None:
    st.vega_lite_chart(
        frame, spec, key=key, on_select=partial(redraw, session), selection_mode="pick", height="content", alt=alt
    )
