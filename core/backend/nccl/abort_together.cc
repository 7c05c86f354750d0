// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/abort_together.h"

#include "core/backend/nccl/returns_within.h"
#include "core/base/log.h"

#include <fmt/format.h>

#include <exception>

namespace hora::nccl {
namespace {

using Communicators = std::vector<std::shared_ptr<Communicator>>;

// When the group has been ended NCCL has taken all aborts, also where it says that they are in progress: each
// communicator goes when its abort is done, and there is nobody left who could be asked.
void abort_all(const NcclContext& context, const Communicators& communicators) {
  const cuda::CurrentContext current(*context.gpu->context());
  const NcclFunctions& nccl = context.nccl->functions;
  const bool grouped = nccl.group_start() == ncclSuccess;
  for (const auto& communicator : communicators) {
    if (communicator->native() != nullptr) nccl.abort(communicator->native());
  }
  if (grouped) nccl.group_end();
}

void run(const NcclContext& context, const Communicators& communicators) {
  try {
    abort_all(context, communicators);
  } catch (const std::exception& error) {
    log(LogLevel::warning, fmt::format("NCCL's communicators could not be aborted: {}", error.what()));
  }
}

}  // namespace

bool abort_together(const NcclContext& context, const Communicators& communicators) noexcept {
  if (communicators.empty()) return true;
  try {
    if (returns_within(context.options.abort_timeout,
                       [context, communicators] { run(context, communicators); })) {
      for (const auto& communicator : communicators) communicator->forget();
      return true;
    }
    log(LogLevel::warning,
        fmt::format(
            "NCCL {} has not returned from ncclCommAbort after {} ms; it is left to itself, with the GPU's "
            "memory that it knows of. Save what is to be kept and end the process",
            nccl_version(context.nccl->library.version), context.options.abort_timeout.count()));
    return false;
  } catch (const std::exception& error) {
    log(LogLevel::warning, fmt::format("NCCL's communicators could not be aborted: {}", error.what()));
    return false;
  }
}

}  // namespace hora::nccl
