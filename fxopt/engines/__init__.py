"""Modules of regions of a graph that an engine computes."""

from fxopt.engines.compiled import CompiledRegion, compiler_of
from fxopt.engines.region import EngineRegion
__all__ = ["CompiledRegion", "EngineRegion", "compiler_of"]
