// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_job.h"

#include "core/base/memory.h"

#include <mutex>

namespace hora {
namespace {

struct OfProcess {
  std::mutex mutex;
  std::weak_ptr<Job> job;  // under the mutex
};

/// For ever: functions that the program has given to atexit() may join a job.
OfProcess& of_process() {
  static OfProcess& one = []() -> OfProcess& {
    const auto made = std::make_shared<OfProcess>();
    keep_for_ever(made);
    return *made;
  }();
  return one;
}

}  // namespace

std::shared_ptr<Job> job_of_process(const std::function<std::shared_ptr<Job>()>& make) {
  OfProcess& own = of_process();
  const std::lock_guard lock(own.mutex);
  auto job = own.job.lock();
  if (job && job->is_in_own_process()) {
    if (!job->was_left()) return job;
    job->await_left();  // a process has one place: it leaves before it joins again
  }
  job = make();
  own.job = job;
  return job;
}

}  // namespace hora
