"""A graph module through a file of `torch.save`."""

import io

import torch
from torch.fx import GraphModule


def saved_and_loaded(gm: GraphModule) -> GraphModule:
    file = io.BytesIO()
    torch.save(gm, file)
    file.seek(0)
    loaded: GraphModule = torch.load(file, weights_only=False)
    return loaded
