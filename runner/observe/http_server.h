// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"
#include "runner/observe/http.h"

#include <poll.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace hora::hrun {

/// Where visitors ask hrun about its job: each makes one request, and gets one response. Nothing blocks, and
/// a visitor takes a bounded time and memory; those for whom there is no room wait outside, in the queue of
/// the socket. Not thread-safe.
class HttpServer {
 public:
  /// How many there is room for, and how long each has: to ask, and again to read its answer.
  static constexpr std::size_t kRoom = 16;
  static constexpr std::chrono::seconds kPatience{5};

  enum class For { everybody, own_user };
  /// Takes a socket that listens. `own_user`: a local one, on which only processes of this user, or of root,
  /// are heard.
  HttpServer(Descriptor listener, For whom);

  /// Adds what poll() has to wait for; and the time until when it may wait.
  void watch(std::vector<pollfd>& events) const;
  [[nodiscard]] TimePoint next() const;

  /// A request that waits for its answer. A value.
  struct Visit {
    std::uint64_t visitor = 0;
    HttpRequest request;
  };
  /// Does what can be done without waiting. The requests that have become whole since the last call.
  std::vector<Visit> turn(TimePoint now);
  /// A visitor that has left, or waited too long, misses it.
  void answer(std::uint64_t visitor, const HttpResponse& response, TimePoint now);

 private:
  struct Visitor {
    std::uint64_t number;
    Descriptor socket;
    TimePoint until;
    std::string asked{};
    std::string answer{};  // what of it is still to be written
    bool waits = false;    // its request was handed out
    bool gone = false;
  };

  void let_in(TimePoint now);
  [[nodiscard]] bool may_enter(int socket) const;
  /// True once its request is whole; `request` is that.
  bool read(Visitor& visitor, HttpRequest& request, TimePoint now);
  static void write(Visitor& visitor);

  Descriptor listener_;
  For whom_;
  std::deque<Visitor> visitors_;
  std::uint64_t numbers_ = 0;
  TimePoint closed_until_;  // nobody is let in before: there were no more descriptors
};

}  // namespace hora::hrun
