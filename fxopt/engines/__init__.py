"""Modules of regions of a graph that an engine computes."""

from fxopt.engines.compiled import CompiledRegion, compiler_of

__all__ = ["CompiledRegion", "compiler_of"]
