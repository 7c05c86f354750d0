# SPDX-License-Identifier: Apache-2.0
from hora.keras.callbacks import *  # noqa: F403
from hora.keras.callbacks import __all__  # noqa: F401
