// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/job.h"

#include <functional>
#include <memory>

namespace hora {

/// The job that this process is in. A process has one place in a job, which a launcher has given to it. So
/// all who call `init` in it, in C, C++ and Python, get the same Job. `make` is called if there is none yet,
/// or the former one was left: it joins. Throws what `make` throws. Others that call this meanwhile wait. The
/// job ends with its last owner. Thread-safe.
[[nodiscard]] std::shared_ptr<Job> job_of_process(const std::function<std::shared_ptr<Job>()>& make);

}  // namespace hora
