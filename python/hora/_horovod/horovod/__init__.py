# SPDX-License-Identifier: Apache-2.0
"""Horovod's names for Hora, so that scripts written for Horovod run unchanged.

This folder is not on the path, except with `hrun --horovod` or after `hora.install_as_horovod()`.
"""

from hora import run

__version__ = "0.28.1"  # the version of Horovod whose names these are; hora.__version__ is Hora's

__all__ = ["__version__", "run"]
