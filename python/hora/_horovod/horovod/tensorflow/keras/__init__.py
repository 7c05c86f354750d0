# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.keras is hora.keras."""

from hora.keras import *  # noqa: F403
from hora.keras import __all__ as __all__
