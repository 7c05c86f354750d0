# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow is hora.tensorflow."""

from hora.tensorflow import *  # noqa: F403
from hora.tensorflow import __all__ as __all__
