# SPDX-License-Identifier: Apache-2.0
"""The operations, and what programs reach for behind them."""

from hora._job import _pending as _handle_map  # noqa: F401
from hora.torch import *  # noqa: F403
from hora.torch import __all__  # noqa: F401

from ..common.basics import HorovodBasics
from ..common.util import get_average_backwards_compatibility_fun

_basics = HorovodBasics()
handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(_basics)
