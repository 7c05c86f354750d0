// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_transfers.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {
namespace {

std::string text(const FakeTag& tag) {
  return fmt::format("call {} of {} elements of type {} with operation {} and root {}", tag.kind, tag.count,
                     tag.type, tag.op, tag.root);
}

}  // namespace

FakeTransfers::FakeTransfers(FakeRendezvous& rendezvous, int rank, int ranks,
                             const std::atomic<bool>& aborted)
    : rendezvous_(rendezvous),
      rank_(rank),
      aborted_(aborted),
      sends_(static_cast<std::size_t>(ranks)),
      receives_(static_cast<std::size_t>(ranks)) {}

void FakeTransfers::send(int to, const FakeTag& tag, const void* data, std::size_t bytes) {
  auto* bytes_at = static_cast<std::byte*>(const_cast<void*>(data));  // NOLINT: is only read
  sends_.at(static_cast<std::size_t>(to)).push_back({tag, bytes_at, bytes});
}

void FakeTransfers::receive(int from, const FakeTag& tag, void* data, std::size_t bytes) {
  receives_.at(static_cast<std::size_t>(from)).push_back({tag, static_cast<std::byte*>(data), bytes});
}

bool FakeTransfers::send_some(int to) {
  auto& messages = sends_[static_cast<std::size_t>(to)];
  if (messages.empty()) return false;
  Message& first = messages.front();
  const std::size_t piece = std::min(first.bytes - first.moved, FakeRendezvous::kPieceBytes);
  if (!rendezvous_.try_send(rank_, to, first.tag, first.data + first.moved, piece)) return false;
  first.moved += piece;
  if (first.moved == first.bytes) messages.pop_front();
  return true;
}

bool FakeTransfers::receive_some(int from) {
  auto& messages = receives_[static_cast<std::size_t>(from)];
  if (messages.empty()) return false;
  Message& first = messages.front();
  FakeTag tag;
  std::size_t bytes = 0;
  const std::size_t most = first.bytes - first.moved;
  if (!rendezvous_.try_receive(from, rank_, tag, first.data + first.moved, most, bytes)) return false;
  if (tag != first.tag || bytes > most) {
    finding_ = fmt::format("rank {}: {}; rank {}: {}", rank_, text(first.tag), from, text(tag));
    rendezvous_.spoil();
    return true;
  }
  first.moved += bytes;
  if (first.moved == first.bytes) messages.pop_front();
  return true;
}

FakeTransfers::Outcome FakeTransfers::run() {
  const auto ranks = static_cast<int>(sends_.size());
  while (true) {
    const std::uint32_t seen = rendezvous_.version();
    if (aborted_.load(std::memory_order_acquire)) return Outcome::aborted;
    if (rendezvous_.spoilt()) return Outcome::mismatch;
    bool moved = false;
    bool left = false;
    for (int other = 0; other < ranks; ++other) {
      moved = send_some(other) || moved;
      moved = receive_some(other) || moved;
      const auto at = static_cast<std::size_t>(other);
      left = left || !sends_[at].empty() || !receives_[at].empty();
    }
    if (!left && finding_.empty()) return Outcome::done;
    if (!moved) rendezvous_.await_change(seen, std::chrono::milliseconds(20));
  }
}

}  // namespace hora
