// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/transfers.h"

#include <algorithm>
#include <cstring>

namespace hora::shm {

void Transfers::run(const Agreed& agreed, const void* offer, std::size_t bytes, std::span<const Take> takes) {
  constexpr Location kNothing{0, 1};
  Mailbox& own = rounds_.open(agreed.call, agreed.total, agreed.detail);
  own.inputs[0] = bytes > 0 ? access_.locate(offer) : kNothing;
  const bool small = agreed.most <= kInlineBytes;
  if (small && bytes > 0) std::memcpy(rounds_.inline_buffer(communicator_.place()), offer, bytes);
  rounds_.meet();
  if (small) {
    for (const auto& take : takes) {
      if (take.bytes > 0) std::memcpy(take.to, rounds_.inline_buffer(take.from) + take.begin, take.bytes);
    }
    return;
  }
  bool in_reach = true;
  for (int place = 0; place < communicator_.size(); ++place)
    in_reach = in_reach && (access_.everything() || rounds_.mailbox(place).inputs[0].in_arena != 0);
  if (!in_reach) return run_staged(agreed.most, offer, bytes, takes);
  for (const auto& take : takes)
    access_.read(take.from, rounds_.mailbox(take.from).inputs[0], take.begin, take.to, take.bytes);
  rounds_.phase();
}

void Transfers::run_staged(std::size_t most, const void* offer, std::size_t bytes,
                           std::span<const Take> takes) {
  for (std::size_t done = 0; done < most; done += kStageBytes) {
    const std::size_t end = done + kStageBytes;
    if (bytes > done) {
      fastest_copy_.copy(rounds_.stage(communicator_.place()), static_cast<const std::byte*>(offer) + done,
                         std::min(bytes, end) - done);
    }
    rounds_.phase();
    for (const auto& take : takes) {
      const std::size_t from = std::max(take.begin, done);
      const std::size_t to = std::min(take.begin + take.bytes, end);
      if (from < to)
        std::memcpy(take.to + (from - take.begin), rounds_.stage(take.from) + (from - done), to - from);
    }
    rounds_.phase();
  }
}

}  // namespace hora::shm
