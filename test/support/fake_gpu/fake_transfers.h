// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/support/fake_gpu/fake_rendezvous.h"

#include <atomic>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace hora {

/// Messages that a rank sends and receives at the same time, those from and to one other rank in their order.
/// One thread's.
class FakeTransfers {
 public:
  enum class Outcome { done, aborted, mismatch };

  FakeTransfers(FakeRendezvous& rendezvous, int rank, int ranks, const std::atomic<bool>& aborted);

  void send(int to, const FakeTag& tag, const void* data, std::size_t bytes);
  void receive(int from, const FakeTag& tag, void* data, std::size_t bytes);
  /// Carries all out.
  Outcome run();
  /// The description of the mismatch, after one, if this rank has found it.
  [[nodiscard]] const std::string& finding() const { return finding_; }

 private:
  struct Message {
    FakeTag tag;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::size_t moved = 0;
  };

  /// Whether anything could be done.
  bool send_some(int to);
  bool receive_some(int from);

  FakeRendezvous& rendezvous_;
  int rank_;
  const std::atomic<bool>& aborted_;
  std::vector<std::deque<Message>> sends_;  ///< to each rank
  std::vector<std::deque<Message>> receives_;
  std::string finding_;
};

}  // namespace hora
