// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/batch_sizer.h"

namespace hora {
namespace {

std::optional<BatchSizing> make_batch_sizing(World& world, const Config& config,
                                             const FusionThresholds& thresholds) {
  if (world.control->rank() != 0 || world.control->size() == 1) return std::nullopt;
  try {
    return BatchSizing(config, thresholds, world.vote != nullptr);
  } catch (const Error& error) {
    world.control->fail(error.status());
    throw;
  }
}

}  // namespace

BatchSizer::BatchSizer(World& world, const Config& config, const Groups& groups, Negotiator& negotiator)
    : groups_(groups),
      negotiator_(negotiator),
      sizing_(make_batch_sizing(world, config, groups.thresholds())) {}

bool BatchSizer::measures(const Request& first, int group) const {
  return sizing_ && sizing_->measures() && first.operation == Operation::allreduce && group == kWorld;
}

void BatchSizer::end_step(TimePoint now) {
  if (!sizing_) return;
  if (const auto bytes = sizing_->end_step(now, groups_.thresholds().host)) negotiator_.fuse_up_to(*bytes);
}

}  // namespace hora
