// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/host_completion.h"

#include "core/base/memory.h"
#include "core/base/operations.h"
#include "core/device/neutral.h"

#include <utility>

namespace hora {

void HostCompletion::complete(RunningBatch batch, const Status& failure) {
  finisher_.finish(std::move(batch), failure, true);
}

std::shared_ptr<std::byte> HostCompletion::stand_in(const Request& request) {
  auto memory = allocate_aligned(byte_count(request));
  if (traits(request.operation).from_joined == FromJoined::neutral)
    fill_neutral(memory.get(), request.dtype, request.op, element_count(request));
  return memory;
}

void* HostCompletion::allocate(BatchItem& item, const std::vector<std::int64_t>& shape) {
  return item.loan.entry->allocate(shape);
}

void HostCompletion::on_host(std::span<const Segment> segments, std::size_t /*each*/, const HostWork& work) {
  work(*lane_.collective, segments);
}

}  // namespace hora
