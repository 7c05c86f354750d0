// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"
#include "core/runtime/handle.h"
#include "core/runtime/lent_memory.h"

#include <memory>

namespace hora {

/// Messages of users: what is wrong with one is said in the caller's thread, or when it comes; the rest is
/// the messenger's. Thread-safe.
class Messages {
 public:
  /// The messenger must live until `await_end` has returned.
  Messages(Messenger& messenger, int rank, int ranks, std::shared_ptr<LentMemory> lent);

  // As Runtime's.
  Handle send(Message message);
  Handle receive(Message wanted);
  [[nodiscard]] std::optional<Envelope> probe(int source, int tag);

  /// Blocks until nothing is under way. Only after the messenger was told to abort.
  void await_end();

 private:
  /// How many messages are under way.
  struct Count {
    std::mutex mutex;
    std::condition_variable zero;
    std::size_t value = 0;  // under the mutex
  };
  class Transit;
  void check_peer(const std::string& what, int peer, bool any) const;

  Messenger& messenger_;
  int rank_;
  int ranks_;
  std::shared_ptr<LentMemory> lent_;
  std::shared_ptr<Count> under_way_ = std::make_shared<Count>();
};

}  // namespace hora
