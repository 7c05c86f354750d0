# SPDX-License-Identifier: Apache-2.0
from hora.elastic import ObjectState, State, notification_manager, run_fn

__all__ = ["ObjectState", "State", "notification_manager", "run_fn"]
