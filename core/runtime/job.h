// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/fastest_copy.h"
#include "core/launcher/answering.h"
#include "core/runtime/generations.h"
#include "core/runtime/lasting.h"
#include "core/runtime/on_failure.h"
#include "core/runtime/on_signal.h"
#include "core/runtime/session.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

namespace hora {

/// A rank's job: its settings, its present generation, and what it keeps from one generation to the next. A
/// Runtime is one, for users.
///
/// Memory of `Session::allocate` belongs to its owners. It keeps its address and its contents in all
/// generations. Handles of a generation that has ended have ended, too: with Error(generation_ended), unless
/// their operations had ended before.
///
/// Threads. Every use of the session holds `session_mutex_` shared; who exchanges the sessions holds it
/// alone, from before a generation is taken until its session is there. So a session is not destroyed under a
/// user, and a Generations::Stop finds the session of the generation that was taken. Nobody waits for another
/// rank while holding the mutex alone. Before that the former engine has been stopped: no thread runs users'
/// callbacks, which may use the session, for it. `changing_mutex_` comes first: one thread at a time leaves,
/// or changes, a generation. Thread-safe.
class Job {
 public:
  /// Joins the first of these generations, within Config::start_timeout. Throws what they throw.
  Job(const Config& settings, std::unique_ptr<Generations> generations);
  /// Leaves the job as `shutdown` does, if it has not been left.
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The present session, which lasts as long as this. Moves.
  class Use {
   public:
    Use(std::shared_lock<std::shared_mutex> lock, Session& session)
        : lock_(std::move(lock)), session_(&session) {}
    Session* operator->() const { return session_; }

   private:
    std::shared_lock<std::shared_mutex> lock_;
    Session* session_;
  };
  /// Throws Error(unavailable) if there is none, as the last one could not be made.
  [[nodiscard]] Use session() const {
    std::shared_lock lock(session_mutex_);
    if (!session_) throw Error(Code::unavailable, "this process has no engine: it could not be started");
    return {std::move(lock), *session_};
  }

  /// False in a forked child.
  [[nodiscard]] bool is_in_own_process() const {
    const std::shared_lock lock(session_mutex_);
    return !session_ || session_->is_in_own_process();
  }

  [[nodiscard]] Lasting& lasting() { return *lasting_; }

  /// As Runtime's.
  [[nodiscard]] bool is_elastic() const { return settings_.member_fd.has_value(); }
  /// As Runtime's.
  [[nodiscard]] int state_root() const { return state_root_; }
  /// As Runtime's.
  [[nodiscard]] int hot_spares() const { return hot_spares_; }
  /// As Runtime's.
  void ask_to_leave() { generations_->ask_to_leave(); }
  /// As Runtime's.
  void leave_on_sigterm();
  /// As Runtime's.
  [[nodiscard]] bool has_left() const { return generations_->has_left(); }
  /// As Runtime's.
  [[nodiscard]] bool change_is_due() const { return change_is_due_; }
  /// As Runtime's.
  [[nodiscard]] bool generation_has_ended() const { return generation_has_ended_; }
  /// As Runtime's.
  void set_takes_in(bool takes_in) { lasting_->steps.takes_in = takes_in; }
  /// As Runtime's.
  bool commit(bool has_state = true);
  /// As Runtime's. Throws Error(invalid_argument) if no other generation follows, or on a thread that runs
  /// the engine; what Generations throws. Then the former session stays, which has ended.
  std::uint64_t next_generation();
  /// As Runtime's.
  void shutdown(const std::string& reason);
  /// As Runtime's `was_shut_down`.
  [[nodiscard]] bool was_left() const { return was_left_; }
  /// Blocks while a thread is in `shutdown`.
  void await_left() { const std::lock_guard changing(changing_mutex_); }
  /// As Runtime's.
  void copy_for_later(void* to, const void* from, std::size_t bytes);

 private:
  void join_next();
  void begin(Generation generation);
  void finish_graphs();
  elastic::Report end_generation(const Status& why);

  /// The threads of the process that use the session.
  struct Observers {
    Observers(Job& job, const Config& settings);
    OnFailure on_failure;
    OnSignal on_signal;
    Answering answering;
  };

  const Config settings_;
  const std::unique_ptr<Generations> generations_;

  std::mutex copy_mutex_;
  std::optional<FastestCopy> copy_;  // under copy_mutex_
  std::optional<Lasting> lasting_;   // from the first generation on

  std::mutex changing_mutex_;
  mutable std::shared_mutex session_mutex_;
  std::unique_ptr<Session> session_;  // under the session mutex
  std::atomic<int> state_root_{-1};
  std::atomic<int> hot_spares_{0};
  std::atomic<bool> change_is_due_{false};
  std::atomic<bool> generation_has_ended_{false};
  std::atomic<bool> was_left_{false};

  std::optional<Observers> observers_;
};

}  // namespace hora
