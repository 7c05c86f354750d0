// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace hora {

/// The training steps of this process, by their numbers from 1 on, for all generations of its job.
///
/// The thread of the user writes. The thread that reports to hrun reads, after the engine has stopped. A vote
/// is written before it is submitted. So a report that lacks the vote comes from an engine that has not taken
/// it, and never will: no rank has heard of the vote.
struct Steps {
  std::atomic<std::uint64_t> voted{0};      ///< the last step for which it has voted: it holds the gradients
  std::atomic<std::uint64_t> committed{0};  ///< the last step that counts, as far as it knows
  std::atomic<bool> has_state{false};       ///< it has the state of the training after these steps
  std::atomic<bool> takes_in{true};         ///< see elastic::Report
};

}  // namespace hora
