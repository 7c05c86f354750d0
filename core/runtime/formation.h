// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/descriptor.h"
#include "core/launcher/news.h"
#include "core/runtime/generations.h"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace hora {

/// The forming of a generation: a thread connects this process with the other members.
///
/// Threads. The members are under the mutex. The thread writes them once, when it has ended, and then calls
/// `notice`. Before that it alone uses the settings of `generation_`. All functions are thread-safe.
class Formation {
 public:
  /// Makes the world of a membership. It goes on with `former`, the memory that this process shared with
  /// others of its host before, if it can.
  using Connect = std::function<World(const Membership& membership, Config& config, TimePoint deadline,
                                      std::shared_ptr<HostMemory> former)>;

  /// Begins. `generation` has all but its world. `notice` runs on the thread when it has ended, and must not
  /// block. Throws Error(unavailable) if the system refuses a thread or a socket.
  Formation(Generation generation, Membership membership, const Connect& connect, TimePoint deadline,
            std::shared_ptr<HostMemory> former, std::function<void()> notice);
  /// Waits for the thread. A world that was not taken ends on the other members, too.
  ~Formation();
  Formation(const Formation&) = delete;
  Formation& operator=(const Formation&) = delete;

  /// Ends it early where it waits for a member that has died.
  void cancel(const RankEnd& end);

  /// How a formation has ended. A value.
  struct Outcome {
    Status status{};                 ///< ok: it has formed the generation
    std::vector<int> unreachable{};  ///< the ranks to which this process could not connect
  };
  /// How it has ended; nothing if it has not.
  [[nodiscard]] std::optional<Outcome> outcome() const;
  /// The generation that it has formed. Once, after an `outcome` that is ok.
  [[nodiscard]] Generation take();

 private:
  mutable std::mutex mutex_;
  std::optional<Outcome> outcome_;
  std::optional<Generation> generation_;
  Descriptor news_;  // what is written here comes to the member, as from its launcher
  std::thread thread_;
};

}  // namespace hora
