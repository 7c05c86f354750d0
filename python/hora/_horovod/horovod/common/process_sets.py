# SPDX-License-Identifier: Apache-2.0
from hora.torch import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]
