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

/// A small HTTP server, by which hrun answers questions about its job. Each connection (a visitor) makes one
/// request, gets one response, and is closed. Nothing blocks, and a visitor takes bounded time and memory. If
/// `kRoom` visitors are there, further ones wait in the queue of the listening socket. Not thread-safe.
class HttpServer {
 public:
  static constexpr std::size_t kRoom = 16;  ///< visitors at a time
  /// The time that a visitor has to send its request, that its answer may take, and that it has to read it.
  static constexpr std::chrono::seconds kIdleTimeout{5};

  enum class For { everybody, own_user };
  /// Takes a socket that listens. `own_user`: it is a local socket, and connections of other users than this
  /// one and root are closed at once.
  HttpServer(Descriptor listener, For whom);

  /// Adds the events that poll() has to wait for.
  void watch(std::vector<pollfd>& events) const;
  /// The time of the next `turn`, if no event comes before.
  [[nodiscard]] TimePoint next() const;

  /// A request that waits for its answer. A value.
  struct Visit {
    std::uint64_t visitor = 0;
    HttpRequest request;
  };
  /// Accepts, reads and writes as much as is possible without waiting. Returns the requests that have become
  /// complete; the caller answers each with `answer`. A bad request gets status 400 and is not returned.
  std::vector<Visit> turn(TimePoint now);
  /// Begins to send the response. Does nothing if that visitor has gone, or its time was over.
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
  TimePoint closed_until_;  // no visitor is accepted before: there were no more descriptors
};

}  // namespace hora::hrun
