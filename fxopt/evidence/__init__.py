"""What a change of a graph is worth: parameters, numerics, latency."""

from fxopt.evidence.difference import Difference, difference
from fxopt.evidence.divergence import Divergence, first_difference
from fxopt.evidence.latency import LatencyReport, Round, measure, report_of
from fxopt.evidence.numerics import NumericsReport, compare_outputs
from fxopt.evidence.output_report import OutputReport
from fxopt.evidence.parameters import ParameterRow, ParameterTable, Totals, parameter_table
from fxopt.evidence.running import EvidenceError
from fxopt.evidence.statements import lines_of, statements_of

__all__ = [
    "Difference",
    "Divergence",
    "EvidenceError",
    "LatencyReport",
    "NumericsReport",
    "OutputReport",
    "ParameterRow",
    "ParameterTable",
    "Round",
    "Totals",
    "compare_outputs",
    "difference",
    "first_difference",
    "lines_of",
    "measure",
    "parameter_table",
    "report_of",
    "statements_of",
]
