// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/event_fd.h"
#include "core/runtime/formation.h"
#include "core/runtime/generations.h"

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

namespace hora {

/// The place in which a generation is formed by one thread (the member thread) and taken by another one (the
/// user's). A generation is here until it is taken, and in the user's session from then on. Thread-safe: the
/// mutex guards everything but the event.
class GenerationSlot {
 public:
  /// The place of the generation that the member thread wants to end.
  enum class Where {
    taken,    ///< the user's thread has it, or is about to use it
    forming,  ///< it is being connected; `take_outcome` tells when that has ended
    formed,   ///< it is connected, or could not be, and nobody can take it any more
  };
  /// The wish of the user's thread to take part in no other generation.
  enum class Finish { no, well, badly };  ///< badly: as this process fails

  // The member thread's part.

  /// Rings when the user's thread has asked for something, or a formation has ended.
  [[nodiscard]] const EventFd& event() const { return event_; }
  /// Begins to form a generation with these settings, on the memory of the one that was taken last.
  void form(Generation generation, Membership membership, const Formation::Connect& connect,
            TimePoint deadline);
  /// Once, when the formation has ended.
  [[nodiscard]] std::optional<Formation::Outcome> take_outcome();
  /// The user's thread may take the generation that was formed.
  void offer();
  /// From here on the generation cannot be taken. `lost`: why, if a member has died.
  Where withdraw(std::uint64_t generation, const std::optional<RankEnd>& lost);
  /// Ends a generation that was not taken.
  void drop();
  /// The generation is to end with the next step that counts.
  void plan_change(std::uint64_t generation);
  /// There are no more generations for this process. The first reason counts. `left`: as somebody has asked
  /// for.
  void end(const Status& why, bool left = false);
  /// Whether the user's thread uses a GPU.
  [[nodiscard]] bool uses_gpu() const { return asked_.uses_gpu; }
  /// Whether the user's thread asks to leave; true once.
  [[nodiscard]] bool take_wish_to_leave();
  /// The number of the generation in which a step has counted; each once.
  [[nodiscard]] std::optional<std::uint64_t> take_first_step();
  /// Whether the user's thread has said so of this generation: see Generations::session_ended.
  [[nodiscard]] bool has_session_ended(std::uint64_t generation) const;
  [[nodiscard]] Finish finish() const;
  /// Whether this process goes while the others train on: not if it has finished well.
  [[nodiscard]] bool leaves() const;

  // The part of the user's thread: see Generations.

  /// Returns whether there is a generation to take. Throws Error if there will be none.
  [[nodiscard]] bool await(TimePoint first_deadline);
  [[nodiscard]] std::optional<Generation> take();
  [[nodiscard]] bool has_more() const;
  [[nodiscard]] bool change_is_due() const;
  void ask_to_leave();
  void use_gpu();
  void step_counted();
  [[nodiscard]] bool has_left() const;
  void set_session_ended();
  /// Also ends the generations, at the same time: a process that finishes well never seems to leave.
  void set_finish(bool well, const Status& why);

 private:
  /// The last generation in which a step has counted.
  struct FirstStep {
    std::uint64_t generation = 0;
    bool is_news = false;  // the member thread has not heard of it
  };
  /// A signal handler, too, may set these.
  struct Asked {
    std::atomic<bool> to_leave{false};  // the member thread has not heard of it
    std::atomic<bool> uses_gpu{false};
  };

  void end_locked(const Status& why, bool left);

  const EventFd event_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unique_ptr<Formation> formation_;
  std::shared_ptr<HostMemory> host_memory_;
  bool formed_ = false;                 // the formation has ended, well or not
  bool can_take_ = false;               // it has formed a generation, which has begun
  std::optional<std::uint64_t> taken_;  // the number of the generation that was taken last
  std::uint64_t change_due_ = 0;        // the number of the generation that is to end with the next step
  std::optional<std::uint64_t> session_ended_;  // the number of the generation whose session has ended
  std::optional<Status> over_;                  // there are no more generations
  FirstStep first_step_;
  Asked asked_;
  bool left_ = false;  // `over_`, as this process was to leave
  Finish finish_ = Finish::no;
};

}  // namespace hora
