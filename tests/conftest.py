"""What all tests share: shapes checked at run time, and property tests that never depend on the machine."""

import torch
from hypothesis import settings
from jaxtyping import install_import_hook

# Before the first import of `algorithms`: every annotated shape is checked on every call. An int is a
# float here, as Python's own annotations mean it ("pep484_tower").
install_import_hook("algorithms", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

# No wall-clock deadlines, and the same examples on every machine.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("ci")

# The tensors here are tiny: a second thread costs more than it saves, and workers share the cores.
torch.set_num_threads(1)
