// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace hora {

/// As long as one lives: its notice is told why this process ends, if that is std::terminate, as for an
/// exception that nobody catches ("uncaught std::runtime_error: disk is full"), or a call of exit(), or the
/// return of main, with another status than 0 ("it exited with code 3"). After std::terminate comes whoever
/// was to be told before Hora came, which as a rule prints that and aborts. In a forked child it says
/// nothing.
///
/// Threads. The notice runs on a thread of its own, and the end waits for it for a second at most: the
/// thread that failed may hold what telling needs. Notices of several run one after the other, under the
/// mutex with which they come and go. A process tells once.
///
/// exit() runs what was registered last first, and destroys what was made last first. So each one registers
/// itself, and is told before anything is destroyed that was made before it.
class OnFailure {
 public:
  explicit OnFailure(std::function<void(const std::string& why)> notice);
  ~OnFailure();
  OnFailure(const OnFailure&) = delete;
  OnFailure& operator=(const OnFailure&) = delete;

 private:
  int number_;
};

}  // namespace hora
