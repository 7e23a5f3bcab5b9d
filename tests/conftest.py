"""One profile for property tests: no wall-clock deadlines, the same examples on every machine."""

import torch
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("ci")

# The tensors here are tiny: a second thread costs more than it saves, and workers share the cores.
torch.set_num_threads(1)
