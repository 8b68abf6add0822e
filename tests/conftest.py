"""Settings of all tests."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is ever fetched from a hub

import torch
from hypothesis import settings

settings.register_profile("fxopt", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("fxopt")

torch.set_num_threads(1)  # two workers on two cores
