# SPDX-License-Identifier: Apache-2.0
from hora.torch import allgather_object, broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]
