// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/rounds.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::shm {
namespace {

constexpr std::array<const char*, 7> kCalls{"nothing", "allreduce", "broadcast",    "allgather",
                                            "barrier", "alltoall",  "reducescatter"};

std::string describe(const Mailbox& mailbox) {
  const char* call = mailbox.call < kCalls.size() ? kCalls[mailbox.call] : "an unknown call";
  return fmt::format("{} of {} bytes ({}) as call {}", call, mailbox.bytes, mailbox.detail, mailbox.sequence);
}

}  // namespace

Mailbox& Rounds::open(Call call, std::uint64_t bytes, std::uint64_t detail) {
  barrier_.throw_if_aborted();
  ++sequence_;
  Mailbox& own = mailbox(communicator_.place());
  own.sequence = sequence_;
  own.call = static_cast<std::uint64_t>(call);
  own.bytes = bytes;
  own.detail = detail;
  return own;
}

void Rounds::meet() {
  phase();
  const Mailbox& own = mailbox(communicator_.place());
  for (int place = 0; place < communicator_.size(); ++place) {
    const Mailbox& other = mailbox(place);
    if (other.sequence == own.sequence && other.call == own.call && other.bytes == own.bytes &&
        other.detail == own.detail) {
      continue;
    }
    throw Error(Code::internal, fmt::format("ranks do not make the same call: rank {} {}, rank {} {}",
                                            communicator_.rank_at(communicator_.place()), describe(own),
                                            communicator_.rank_at(place), describe(other)));
  }
}

void Rounds::phase() {
  barrier_.arrive();
  barrier_.await_all();
}

bool Rounds::all_in_arena(std::size_t count,
                          std::initializer_list<std::array<Location, kLocations> Mailbox::*> lists) const {
  for (int place = 0; place < communicator_.size(); ++place) {
    for (const auto list : lists) {
      const auto& locations = mailbox(place).*list;
      const auto end = locations.begin() + static_cast<std::ptrdiff_t>(count);
      if (std::any_of(locations.begin(), end, [](const Location& at) { return at.in_arena == 0; }))
        return false;
    }
  }
  return true;
}

}  // namespace hora::shm
