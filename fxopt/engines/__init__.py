"""Modules of regions of a graph that an engine computes."""

from fxopt.engines.compiled import CompiledRegion, compiler_of
from fxopt.engines.planned import PlannedRegion
from fxopt.engines.region import EngineRegion
from fxopt.engines.runtimes import RUNTIMES
from fxopt.engines.session import SessionRegion

__all__ = ["RUNTIMES", "CompiledRegion", "EngineRegion", "PlannedRegion", "SessionRegion", "compiler_of"]
