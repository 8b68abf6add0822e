"""Snapshot of a graph module: enough to put it back, and to find the changes since.

Only lists and dictionaries of references are copied, so taking one costs a few microseconds a node and no memory for
weights. So numbers can be put back only if their tensors were replaced; overwritten ones are noticed.
"""

from __future__ import annotations

from torch.fx import GraphModule

from fxopt.recording.graph_state import GraphState
from fxopt.recording.module_state import tensors_of
from fxopt.recording.savepoint import Savepoint
from fxopt.recording.tensor_snapshot import TensorSnapshot


class Snapshot(Savepoint):
    """A graph module as it is now, with all modules, tensors and graphs in it.

    Args:
        with_tensors: whether to note the state of tensors, which costs a few microseconds each. Without, it stays as it
            is when all is put back.
        copy_tensors: whether to copy the numbers of all parameters and buffers too, so that they can be put back if
            they are written over.
    """

    def __init__(self, gm: GraphModule, copy_tensors: bool = False, with_tensors: bool = True) -> None:
        modules = dict(gm.named_modules())
        super().__init__(gm, modules.values())
        self.modules = {id(state.thing): state for state in self.objects}
        """By the identity of the module, each of which is held."""
        self.tensors: dict[int, TensorSnapshot] = {}
        for path, state in zip(modules, self.objects) if with_tensors else ():
            for name, tensor in tensors_of(state):
                if id(tensor) not in self.tensors:
                    where = f"{path}.{name}" if path else name
                    self.tensors[id(tensor)] = TensorSnapshot.of(where, tensor, copy_tensors)
        self.lost: list[str] = []
        """The paths of tensors whose numbers were written over and not copied."""
        inside = (module for module in modules.values() if module is not gm and isinstance(module, GraphModule))
        self._inside = [GraphState.of(module.graph) for module in inside]

    def restore(self) -> None:
        """Put everything back, but for the numbers of the tensors that are `lost` then."""
        self.lost = [state.path for state in self.tensors.values() if not state.restore()]
        super().restore()
        for graph in self._inside:
            graph.restore()

    def changed_graph_inside(self) -> str:
        """Return the class of a graph module inside whose graph was changed; empty if there is none."""
        changed = (state.graph.owning_module for state in self._inside if not state.is_as_it_was())
        return next((type(module).__name__ for module in changed), "")
