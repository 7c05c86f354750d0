// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <cerrno>
#include <system_error>

namespace hora {

/// While one lives, this thread and those that it starts have one core.
class OneCore {
 public:
  OneCore() {
    if (::sched_getaffinity(0, sizeof former_, &former_) != 0)
      throw std::system_error(errno, std::generic_category());
    int first = 0;
    while (!CPU_ISSET(first, &former_)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (::sched_setaffinity(0, sizeof one, &one) != 0)
      throw std::system_error(errno, std::generic_category());
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;
  ~OneCore() { ::sched_setaffinity(0, sizeof former_, &former_); }

 private:
  cpu_set_t former_{};
};

}  // namespace hora
