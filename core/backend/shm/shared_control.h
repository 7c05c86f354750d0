// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"
#include "core/comm/control.h"

#include <memory>

namespace hora::shm {

/// Control whose messages between rank 0 and its neighbours go through shared memory, and ring the wake-up of
/// the receiver's vote. A neighbour is a child of rank 0 that has no children: any other rank, in a star.
/// All other messages, and all losses, go the way of `base`. `communicator`: of all ranks, in their order.
///
/// Between neighbours each message has a number. One that finds no room in the queue goes the way of `base`,
/// with its number in front. The receiver takes messages in the order of their numbers, so none overtakes
/// another. A loss that `base` reports is given after all messages that were sent before it.
///
/// All ranks make it at the same point of their way into the job, when no message is under way.
[[nodiscard]] std::unique_ptr<Control> make_shared_control(std::unique_ptr<Control> base,
                                                           std::shared_ptr<const Communicator> communicator);

}  // namespace hora::shm
