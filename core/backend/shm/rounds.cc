// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/rounds.h"

#include <fmt/format.h>

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
  bell_.throw_if_aborted();
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
  bell_.arrive();
  bell_.await_all();
}

}  // namespace hora::shm
