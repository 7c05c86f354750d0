// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"
#include "core/runtime/handle.h"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace hora {

/// An entry that is under way, and whom to tell. Moves; whoever holds it gives it back to the table, once.
struct Loan {
  Entry entry;
  std::shared_ptr<Handle::State> handle;
  TimePoint submitted;
};

/// The tensors that are under way on this rank, by name: the only object that user threads and the engine
/// share. One mutex guards all of it; nothing foreign runs under it. Thread-safe.
class TensorTable {
 public:
  /// Takes an entry. Throws Error(invalid_argument) if its name is under way, or Error with the status it was
  /// closed with.
  Handle put(Entry entry, Request request, TimePoint now);

  /// What was put since the last call, in that order.
  std::vector<Request> take_requests();
  /// Hands out the tensor of this name, if it waits here. Its name stays taken until it is finished.
  std::optional<Loan> take(const std::string& name);
  /// Gives the tensor back to its owner: frees the name, runs `done`, drops what the entry held, sets the
  /// handle.
  void finish(Loan loan, Result result);
  /// Hands out all that wait here, in no order; whoever puts from now on gets `status`. The first status
  /// counts.
  std::vector<Loan> close(const Status& status);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Loan> loans_;  // without a handle: handed out
  std::vector<Request> requests_;
  std::optional<Status> closed_;
};

}  // namespace hora
