# SPDX-License-Identifier: Apache-2.0
"""horovod.torch is hora.torch."""

import torch
from hora.torch import *  # noqa: F403
from hora.torch import __all__ as __all__

from . import compression as compression
from . import functions as functions
from . import mpi_ops as mpi_ops
from . import optimizer as optimizer
from . import sync_batch_norm as sync_batch_norm


def _check_has_gpu() -> bool:
    return torch.cuda.is_available()
