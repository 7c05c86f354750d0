// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace hora {

/// As long as one lives: when std::terminate ends this process, as for an exception that nobody catches, its
/// notice is told why ("uncaught std::runtime_error: disk is full"), and then whoever was to be told before
/// Hora came, which as a rule prints that and aborts. In a forked child it says nothing.
///
/// Threads. The notice runs on a thread of its own, and std::terminate waits for it for a second at most: the
/// thread that failed may hold what telling needs. Notices of several run one after the other, under the
/// mutex with which they come and go.
class OnTerminate {
 public:
  explicit OnTerminate(std::function<void(const std::string& why)> notice);
  ~OnTerminate();
  OnTerminate(const OnTerminate&) = delete;
  OnTerminate& operator=(const OnTerminate&) = delete;

 private:
  int number_;
};

}  // namespace hora
