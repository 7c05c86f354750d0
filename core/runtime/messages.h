// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"
#include "core/comm/rank_set.h"
#include "core/runtime/end_code.h"
#include "core/runtime/handle.h"
#include "core/runtime/lent_memory.h"
#include "core/runtime/process_sets.h"
#include "core/watch/message_wait.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <vector>

namespace hora {

/// Messages of users. Reports the error of a message in the caller's thread, or when the message comes; the
/// rest is the messenger's. Keeps the messages that are under way, for callers that ask which of them wait
/// for another rank.
///
/// The engine looks up the messages that have waited for long, and tells rank 0 (core/watch/stalls.h). Under
/// the table's mutex: the messages, `due` (also read without it: the engine looks in each turn), and `ring`,
/// which wakes the engine. A thread that begins a message when none waits sets `due` and rings; other threads
/// find it set and do nothing more. So one ring is enough for as long as messages follow one another. The
/// engine sets `due` anew when it has looked. A message that the engine has told of rings when it goes on or
/// ends. Nothing else is called under the mutex. Thread-safe.
class Messages {
 public:
  /// The messenger must live until `await_end` has returned, `sets` as long as this.
  Messages(Messenger& messenger, int rank, const ProcessSets& sets,
           std::shared_ptr<LentMemory> lent = std::make_shared<LentMemory>(), EndCode end_code = EndCode());

  // As Runtime's.
  Handle send(Message message);
  Handle receive(Message wanted);
  [[nodiscard]] std::optional<Envelope> probe(int source, int tag, int process_set);

  /// From now on messages that wait for another rank for `late_after` are late, and `ring` runs when `due`
  /// comes closer. {}: no more.
  void watch(std::chrono::milliseconds late_after, std::function<void()> ring);
  /// When to look for late ones, at the soonest.
  [[nodiscard]] TimePoint due() const;
  /// The late ones, if those are others than in the last call, the oldest first; sets `due`.
  std::optional<std::vector<MessageWait>> take_late(TimePoint now);
  /// All that wait for another rank or move, the oldest first.
  [[nodiscard]] std::vector<MessageWait> under_way(TimePoint now) const;

  /// This rank sends nothing more. `has_left`: and all that it has sent is at the receivers; rings then.
  void leave();
  [[nodiscard]] bool has_left() const;
  void hear_leave(const RankSet& ranks);

  /// Blocks until nothing is under way. Only after the messenger was told to abort.
  void await_end();

 private:
  class Transit;
  /// The messages that are under way.
  struct Table {
    void ring_at(TimePoint time);  // under the mutex

    std::mutex mutex;
    std::condition_variable empty;
    std::list<Transit*> transits;  // by when they began
    std::chrono::milliseconds late_after{};
    std::function<void()> ring;
    bool changed = false;  // of those that are late
    bool left = false;
    std::atomic<TimePoint> due{TimePoint::max()};
  };
  [[nodiscard]] std::vector<int> members_with(const std::string& what, int peer, int process_set) const;
  [[nodiscard]] Wanted checked(const std::string& what, int source, int tag, int process_set) const;

  Messenger& messenger_;
  int rank_;
  const ProcessSets& sets_;
  std::shared_ptr<LentMemory> lent_;
  EndCode end_code_;
  std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace hora
