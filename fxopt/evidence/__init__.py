"""Evidence on a change of a graph: parameters, numerics, latency; and the cost of each node."""

from fxopt.evidence.costs import Costs, CriticalPath, critical_path, parameter_costs
from fxopt.evidence.difference import Difference, difference
from fxopt.evidence.divergence import Divergence, first_difference
from fxopt.evidence.latency import measure
from fxopt.evidence.latency_report import LatencyReport, Round, report_of
from fxopt.evidence.memory import Demand, demand_of
from fxopt.evidence.node_times import NodeTimes, node_times
from fxopt.evidence.numerics import NumericsReport, compare_outputs
from fxopt.evidence.output_report import OutputReport
from fxopt.evidence.parameters import ParameterRow, ParameterTable, Totals, parameter_table
from fxopt.evidence.running import EvidenceError, RunStoppedError, stopping_unless
from fxopt.evidence.site import SiteReport, site_report
from fxopt.evidence.spans import spans_of
from fxopt.evidence.statements import lines_of, statements_of
from fxopt.evidence.work import work_costs

__all__ = [
    "Costs",
    "CriticalPath",
    "Demand",
    "Difference",
    "Divergence",
    "EvidenceError",
    "LatencyReport",
    "NodeTimes",
    "NumericsReport",
    "OutputReport",
    "ParameterRow",
    "ParameterTable",
    "Round",
    "RunStoppedError",
    "SiteReport",
    "Totals",
    "compare_outputs",
    "critical_path",
    "demand_of",
    "difference",
    "first_difference",
    "lines_of",
    "measure",
    "node_times",
    "parameter_costs",
    "parameter_table",
    "report_of",
    "site_report",
    "spans_of",
    "statements_of",
    "stopping_unless",
    "work_costs",
]
