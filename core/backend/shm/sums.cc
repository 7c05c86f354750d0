// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/sums.h"

#include <algorithm>
#include <utility>

namespace hora::shm {
namespace {

constexpr std::size_t kBlock = 2048;  // elements at a time: what is between the steps stays in the caches

}  // namespace

Sums::Sums(Communicator communicator, const std::optional<std::vector<int>>& levels)
    : communicator_(std::move(communicator)) {
  if (levels || communicator_.size() <= kFlat)
    levels_.emplace(communicator_.size(), levels.value_or(std::vector<int>{}));
}

bool Sums::by_levels(const Reduction& reduction) {
  if (!levels_) {
    std::vector<Nearness> ranks;
    for (int place = 0; place < communicator_.size(); ++place) {
      const SharedCores& cores = communicator_.block(place).cores;
      ranks.push_back(
          {cores.cache.load(std::memory_order_relaxed), cores.socket.load(std::memory_order_relaxed)});
    }
    levels_.emplace(ranks);
  }
  return levels_->count() > 1 && Stepwise::suits(reduction);
}

void Sums::reduce(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
                  const Reduction& reduction) {
  if (!by_levels(reduction)) return kernels::reduce(inputs, outputs, count, reduction);
  Stepwise steps(reduction);
  const std::size_t each = size_of(reduction.dtype);
  std::vector<const void*> in(inputs.begin(), inputs.end());
  std::vector<void*> out(outputs.begin(), outputs.end());
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t length = std::min(kBlock, count - done);
    reduce_block(in, out, length, steps);
    for (auto& input : in) input = static_cast<const std::byte*>(input) + length * each;
    for (auto& output : out) output = static_cast<std::byte*>(output) + length * each;
  }
}

void Sums::reduce_block(std::span<const void* const> inputs, std::span<void* const> outputs,
                        std::size_t count, Stepwise& steps) {
  const std::size_t room = kBlock * steps.partial_bytes();
  std::size_t partials = 0;
  for (std::size_t level = 1; level < levels_->count(); ++level) partials += levels_->groups(level).size();
  scratch_.resize(std::max(scratch_.size(), partials * room));
  std::byte* next = scratch_.data();
  std::vector<const void*> below(inputs.begin(), inputs.end());  // by group of the level below
  std::vector<const void*> parts;
  for (std::size_t level = 1; level < levels_->count(); ++level) {
    std::vector<const void*> made;
    for (const auto& group : levels_->groups(level)) {
      parts.clear();
      for (const std::size_t part : group.parts) parts.push_back(below[part]);
      level == 1 ? steps.begin(parts, next, count) : steps.go_on(parts, next, count);
      made.push_back(next);
      next += room;
    }
    below = std::move(made);
  }
  steps.end(below, outputs, count);
}

}  // namespace hora::shm
