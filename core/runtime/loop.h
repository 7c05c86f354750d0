// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/executor.h"
#include "core/watch/stalls.h"

#include <mutex>
#include <optional>
#include <string>

namespace hora {

/// The engine: one turn after another, each asks, hears, and carries out. Refers to the world, the config and
/// the table, which must outlive it. *Engine only*, except `leave`.
class Loop {
 public:
  Loop(World& world, const Config& config, TensorTable& table);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Turns until the job ends on all ranks, or fails; then closes the table and gives all tensors back. Call
  /// once.
  void run() noexcept;
  /// Makes this rank ask for nothing more; `run` returns when all ranks have left. Thread-safe; the first
  /// call counts.
  void leave(const std::string& reason);

 private:
  /// One round; false when the job has ended.
  bool turn();
  std::optional<std::string> told_to_leave();
  void leave(TimePoint now);
  void carry_out(const std::vector<Decision>& decisions);
  TimePoint watch_stalls(TimePoint now);
  void end();
  void fail(const Status& status);
  void dump(const Status& why, const std::vector<Loan>& pending);

  World& world_;
  const Config& config_;
  TensorTable& table_;
  Negotiator negotiator_;
  Recorder recorder_;
  Executor executor_;
  Stalls stalls_;

  std::mutex leaving_mutex_;
  std::optional<std::string> leaving_;  // the reason; under leaving_mutex_
  bool left_ = false;
};

}  // namespace hora
