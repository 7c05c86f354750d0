# SPDX-License-Identifier: Apache-2.0
from hora import run

__all__ = ["run"]
