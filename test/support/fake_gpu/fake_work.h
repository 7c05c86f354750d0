// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/fake_gpu/fake_transfers.h"

#include <nccl.h>

#include <array>
#include <cstddef>
#include <vector>

namespace hora {

enum class FakeKind { all_reduce, reduce, broadcast, all_gather, reduce_scatter, send, recv };

/// One call of a collective, or of a message. A value.
struct FakeOperation {
  FakeKind kind = FakeKind::all_reduce;
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;  ///< a built-in one
  bool multiplies = false;   ///< `input` by `scalar`
  std::array<std::byte, sizeof(double)> scalar{};
  int root = 0;  ///< or the other rank of a message
  cudaStream_t stream = nullptr;
  std::uint64_t registered_input = 0;  ///< as a tag says it
  std::uint64_t registered_output = 0;
};

/// The work of a group of calls for one rank when its turn comes on the stream. One thread's.
class FakeWork {
 public:
  FakeWork(FakeRendezvous& rendezvous, int rank, int ranks, const std::atomic<bool>& aborted)
      : rendezvous_(rendezvous), rank_(rank), ranks_(ranks), aborted_(aborted) {}

  /// Collectives one after the other, and all messages at the same time.
  FakeTransfers::Outcome run(const std::vector<FakeOperation>& operations);
  [[nodiscard]] const std::string& finding() const { return finding_; }

 private:
  using Bytes = std::vector<std::byte>;

  FakeTransfers::Outcome agree(const FakeOperation& operation);
  FakeTransfers::Outcome collective(const FakeOperation& operation);
  FakeTransfers::Outcome reduce_to_all(const FakeOperation& operation);
  FakeTransfers::Outcome reduce_to(const FakeOperation& operation, int root);
  FakeTransfers::Outcome reduce_blocks(const FakeOperation& operation);
  FakeTransfers::Outcome broadcast(const FakeOperation& operation);
  FakeTransfers::Outcome gather(const FakeOperation& operation);
  FakeTransfers::Outcome messages(const std::vector<FakeOperation>& operations);
  FakeTransfers::Outcome finish(FakeTransfers& transfers);

  [[nodiscard]] Bytes own_input(const FakeOperation& operation, std::size_t count) const;
  void combine(const FakeOperation& operation, const std::vector<Bytes>& inputs, std::byte* to) const;

  FakeRendezvous& rendezvous_;
  int rank_;
  int ranks_;
  const std::atomic<bool>& aborted_;
  std::string finding_;
};

}  // namespace hora
