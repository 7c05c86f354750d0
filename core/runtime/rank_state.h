// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/launcher/health.h"
#include "core/runtime/messages.h"
#include "core/runtime/tensor_table.h"
#include "core/watch/account.h"
#include "core/watch/recorder.h"

#include <hora/config.h>

#include <mutex>
#include <string>
#include <vector>

namespace hora {

/// The state of this rank: for rank 0, for the launcher, and in a dump. Refers to its constructor's
/// arguments, which must outlive it. Thread-safe.
class RankState {
 public:
  RankState(const World& world, const Config& config, const TensorTable& table, const Messages& messages,
            const Recorder& recorder)
      : world_(world), config_(config), table_(table), messages_(messages), recorder_(recorder) {}

  /// The answer to rank 0's inquiry: the last operation, and the main thread's stack, for which it waits a
  /// moment.
  [[nodiscard]] Account account() const;
  /// The answer to the launcher's question.
  [[nodiscard]] Health health() const;

  /// Writes down what this rank has done and what is under way. Returns the path. Throws Error(unavailable)
  /// with the path and the system's reason.
  [[nodiscard]] std::string write_dump(const std::string& why) const;
  /// The same; the log says where it is, or why it could not be written.
  void dump(const std::string& why) const;
  /// The job fails for this reason, and this was under way: leaves a dump. The launcher, if there is one,
  /// tells of all ranks together why, and where dumps are; a line of this rank alone would say the same once
  /// more.
  void tell_of_failure(const Status& why, std::vector<Record> pending) const;

 private:
  [[nodiscard]] std::string write(const Status& why, std::vector<Record> pending) const;

  const World& world_;
  const Config& config_;
  const TensorTable& table_;
  const Messages& messages_;
  const Recorder& recorder_;
  mutable std::mutex writing_;  // a dump: all have one path
};

}  // namespace hora
