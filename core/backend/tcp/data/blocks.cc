// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/blocks.h"

#include "core/backend/tcp/data/traffic.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace hora::tcp {
namespace {

constexpr std::size_t kBlocksSegment = std::size_t{1}
                                       << 20;  // so that several sockets to a peer share the work

/// The blocks of all ranks in an output, one after the other.
class Blocks {
 public:
  Blocks(void* output, std::span<const std::size_t> bytes) : bytes_(bytes) {
    auto* next = static_cast<std::byte*>(output);
    for (const std::size_t length : bytes) {
      begins_.push_back(next);
      if (length > 0) next += length;
    }
  }
  [[nodiscard]] std::byte* at(int rank) const { return begins_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::size_t bytes(int rank) const { return bytes_[static_cast<std::size_t>(rank)]; }

  /// `count` blocks from that of rank `first` on; after the last rank's comes the first one's.
  [[nodiscard]] Pieces some(int first, int count) const {
    const auto ranks = static_cast<int>(begins_.size());
    Pieces pieces;
    for (int i = 0; i < count; ++i) add_piece(pieces, at((first + i) % ranks), bytes((first + i) % ranks));
    return pieces;
  }

 private:
  std::span<const std::size_t> bytes_;
  std::vector<std::byte*> begins_;
};

void put_own(const Blocks& blocks, int rank, const void* input) {
  if (blocks.bytes(rank) > 0) std::memmove(blocks.at(rank), input, blocks.bytes(rank));
}

/// Cuts what is long; what is empty is one message all the same.
std::vector<Pieces> segments_of(const Pieces& pieces) {
  std::vector<Pieces> segments(1);
  std::size_t room = kBlocksSegment;
  for (auto piece : pieces) {
    while (!piece.empty()) {
      if (room == 0) {
        segments.emplace_back();
        room = kBlocksSegment;
      }
      const std::size_t part = std::min(room, piece.size());
      segments.back().push_back(piece.first(part));
      piece = piece.subspan(part);
      room -= part;
    }
  }
  return segments;
}

void send_all(Traffic& traffic, int peer, Purpose purpose, const Pieces& pieces) {
  for (auto& segment : segments_of(pieces)) traffic.send(peer, purpose, std::move(segment));
}

void receive_all(Traffic& traffic, int peer, Purpose purpose, const Pieces& pieces) {
  for (auto& segment : segments_of(pieces)) traffic.receive(peer, purpose, std::move(segment));
}

Pieces piece_of(const void* data, std::size_t bytes) {
  Pieces pieces;
  add_piece(pieces, data, bytes);
  return pieces;
}

}  // namespace

void allgather_at_once(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bytes) {
  const Blocks blocks(output, bytes);
  std::vector<int> others;
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    if (rank != mesh.rank()) others.push_back(rank);
  }
  Traffic traffic(mesh, others);
  put_own(blocks, mesh.rank(), input);
  for (const int peer : others) {
    send_all(traffic, peer, Purpose::block, blocks.some(mesh.rank(), 1));
    receive_all(traffic, peer, Purpose::block, blocks.some(peer, 1));
  }
  traffic.run();
}

void allgather_in_rounds(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bytes) {
  const Blocks blocks(output, bytes);
  const int ranks = mesh.ranks();
  const int rank = mesh.rank();
  std::vector<int> peers;
  for (int distance = 1; distance < ranks; distance *= 2) {
    for (const int peer : {(rank + distance) % ranks, (rank - distance + ranks) % ranks}) {
      if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
    }
  }
  Traffic traffic(mesh, peers);
  put_own(blocks, rank, input);
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int count = std::min(distance, ranks - distance);
    const int after = (rank + distance) % ranks;
    send_all(traffic, (rank - distance + ranks) % ranks, Purpose::block, blocks.some(rank, count));
    receive_all(traffic, after, Purpose::block, blocks.some(after, count));
    traffic.run();
  }
}

void alltoall_at_once(Mesh& mesh, const void* input, void* output, std::span<const std::size_t> bytes) {
  const auto ranks = static_cast<std::size_t>(mesh.ranks());
  const auto own = static_cast<std::size_t>(mesh.rank());
  const auto sent = [&](std::size_t to) { return bytes[own * ranks + to]; };
  const auto received = [&](std::size_t from) { return bytes[from * ranks + own]; };
  std::vector<int> peers;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (rank != own && sent(rank) + received(rank) > 0) peers.push_back(static_cast<int>(rank));
  }
  Traffic traffic(mesh, peers);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto peer = static_cast<int>(rank);
    if (rank == own) {
      if (sent(rank) > 0) std::memmove(to, from, sent(rank));
    } else {
      if (sent(rank) > 0) send_all(traffic, peer, Purpose::row, piece_of(from, sent(rank)));
      if (received(rank) > 0) receive_all(traffic, peer, Purpose::row, piece_of(to, received(rank)));
    }
    if (sent(rank) > 0) from += sent(rank);
    if (received(rank) > 0) to += received(rank);
  }
  traffic.run();
}

}  // namespace hora::tcp
