"""A rule while it is written: its matches and near misses in a graph, or the fault in its text with the line."""

from fxopt.writing.answer import Answer, Fault, Found, NearMiss, Site
from fxopt.writing.looking import check, look
from fxopt.writing.rule_process import RuleProcess
from fxopt.writing.templates import TEMPLATES, Template, source_of_rules

__all__ = [
    "TEMPLATES",
    "Answer",
    "Fault",
    "Found",
    "NearMiss",
    "RuleProcess",
    "Site",
    "Template",
    "check",
    "look",
    "source_of_rules",
]
