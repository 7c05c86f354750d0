// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/fastest_copy.h"
#include "core/join/membership_source.h"
#include "core/launcher/answering.h"
#include "core/runtime/connect.h"
#include "core/runtime/lasting.h"
#include "core/runtime/on_failure.h"
#include "core/runtime/on_signal.h"
#include "core/runtime/session.h"

#include <functional>
#include <memory>
#include <mutex>
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
/// Threads. Every use of the session holds `session_mutex_` shared; `next_generation` holds it alone while it
/// exchanges the sessions. So a session is not destroyed under a user. Nobody waits for another rank while
/// holding it alone. Before that the former engine has been stopped: no thread runs users' callbacks, which
/// may use the session, for it. `changing_mutex_` comes first: one thread at a time leaves, or changes, a
/// generation. Thread-safe.
class Job {
 public:
  /// Makes a World of a membership. Knobs that all ranks have alike become rank 0's in `config`. Throws Error
  /// at the deadline.
  using Connect = std::function<World(const Membership& membership, Config& config, TimePoint deadline)>;

  /// Joins the source's first generation, within Config::start_timeout. Throws what the source and `connect`
  /// throw.
  Job(const Config& settings, std::unique_ptr<MembershipSource> source, Connect connect = hora::connect);
  /// A job of one generation, whose ranks have been connected.
  Job(World world, const Config& settings);
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
  [[nodiscard]] Use session() const { return {std::shared_lock(session_mutex_), *session_}; }
  [[nodiscard]] Lasting& lasting() { return lasting_; }

  /// Leaves the present generation, waits until its other ranks have left it or are lost, and joins the next,
  /// within Config::start_timeout. Throws Error(invalid_argument) if there is none, or on a thread that runs
  /// the engine; what the source and `connect` throw. Then the former session stays, which has ended.
  void next_generation();
  /// As Runtime's.
  void shutdown(const std::string& reason);
  /// As Runtime's.
  void copy_for_later(void* to, const void* from, std::size_t bytes);

 private:
  /// A world and the settings that its ranks have agreed on.
  struct Generation {
    World world;
    Config config;
  };
  Job(const Config& settings, Generation first, std::unique_ptr<MembershipSource> source, Connect connect);
  static Generation join(const Config& settings, MembershipSource& source, const Connect& connect);
  [[nodiscard]] bool goes_on() const { return source_ && source_->has_more(); }

  const Config settings_;
  const std::unique_ptr<MembershipSource> source_;  // null: there is no other generation
  const Connect connect_;
  std::mutex copy_mutex_;
  FastestCopy copy_;  // under copy_mutex_
  Lasting lasting_;
  std::mutex changing_mutex_;
  mutable std::shared_mutex session_mutex_;
  std::unique_ptr<Session> session_;
  // Last: their threads use the session.
  OnFailure on_failure_;
  OnSignal on_signal_;
  Answering answering_;
};

}  // namespace hora
