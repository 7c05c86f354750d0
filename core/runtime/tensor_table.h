// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/gpu/own_gpu.h"
#include "core/negotiate/message.h"
#include "core/runtime/end_code.h"
#include "core/runtime/graph_run.h"
#include "core/runtime/handle.h"
#include "core/runtime/kinds_on_gpu.h"
#include "core/runtime/lent_memory.h"
#include "core/watch/recorder.h"

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace hora {

/// An entry as it is asked for: in which group, and what. A value.
struct Asked {
  int group = kWorld;
  Request request;
  Readiness ready = {};                ///< see Loan
  MemoryUse memory = {};               ///< what it reads and writes
  std::shared_ptr<GraphRun> run = {};  ///< of the graph that asks for it; null: none does
};

/// An entry that is under way, and whom to tell. Moves; whoever holds it gives it back to the table, once.
/// The table keeps the entry, too, until the name is free, and reads its operation, dtype and shape.
struct Loan {
  std::shared_ptr<Entry> entry;
  int group = kWorld;
  std::shared_ptr<Handle::State> handle = {};
  TimePoint submitted = {};
  Readiness ready = {};  ///< of what is on a GPU
  bool named = true;     ///< its name is taken, and its memory lent
  MemoryUse memory = {};
  std::shared_ptr<GraphRun> run = {};  ///< as Asked has it
};

/// A status as a user of the tensor gets it: its text begins with the name of a tensor, of this one unless it
/// names another already, which is the cause then.
[[nodiscard]] Status about(const std::string& name, const Status& status);

/// The status of entries whose process set is removed.
[[nodiscard]] Status process_set_was_removed(int number);

/// The record that a dump has of a tensor that has not finished.
[[nodiscard]] Record to_record(const Loan& loan, const std::string& name, int group);

/// The requests that a call of `TensorTable::take_requests` takes, if all that wait are about tensors on the
/// GPU. If one is not, the call takes all, so that their order stays as it is.
enum class TakeOnGpu {
  all,
  ready,  ///< of each group the first, and those behind it whose inputs the GPU has already computed
  none,
};

/// The tensors that are under way on this rank, by group and name: the only object that user threads and the
/// engine share. One mutex guards all of it; nothing foreign runs under it. Thread-safe.
class TensorTable {
 public:
  explicit TensorTable(std::shared_ptr<LentMemory> lent = std::make_shared<LentMemory>(),
                       EndCode end_code = EndCode())
      : lent_(std::move(lent)), end_code_(end_code) {}

  [[nodiscard]] EndCode end_code() const { return end_code_; }

  /// Sets the helper, which can get on with the operations under way while a thread waits for one. Before the
  /// first entry.
  void helped_by(std::shared_ptr<Helper> helper) { helper_ = std::move(helper); }
  /// Adds a process set, whose number is new. Entries of it can be put from now on.
  void add_group(int group);
  /// Takes an entry. Throws Error(invalid_argument) if its name is under way, or memory of it that may not
  /// be shared; Error(aborted) if the process set was removed; or Error with the status that the table was
  /// closed with.
  Handle put(Entry&& entry, Asked&& asked, TimePoint now);
  /// Takes all of them, or throws and takes none.
  std::vector<Handle> put(std::vector<Entry> entries, std::vector<Asked> asked, TimePoint now);

  /// Takes requests that have been put and not been taken yet: by group, in the order in which they were put.
  /// Those that it leaves come first in the next call. For one thread at a time. Throws Error if the GPU has
  /// failed (`ready` only).
  std::map<int, std::vector<Request>> take_requests(TakeOnGpu on_gpu = TakeOnGpu::all);
  /// Whether requests wait to be taken.
  [[nodiscard]] bool has_requests() const;
  /// From now on `take_requests` takes those about tensors on the GPU only when their inputs have been
  /// computed, all of these, in whatever order. A rank whose graphs ask for operations needs that: an input
  /// may come after a run of a graph, which waits for an operation. If the GPU waited for that input first,
  /// none of them would end.
  void take_only_computed() { only_computed_.store(true, std::memory_order_release); }
  [[nodiscard]] bool takes_only_computed() const { return only_computed_.load(std::memory_order_acquire); }
  /// Hands out the tensor of this name, if it waits here. Its name stays taken until it is launched or
  /// finished.
  std::optional<Loan> take(int group, const std::string& name);
  /// Frees the name, and tells who waits that the operation's work has been given to the GPU, and is done
  /// when that reaches `event`.
  void launch(Loan& loan, Result result, std::shared_ptr<Event> event);
  /// The kinds of operations that have been launched.
  [[nodiscard]] KindsOnGpu& launched() { return launched_; }
  /// Gives the tensor back to its owner: frees the name, runs `done`, drops what the entry held (or, with
  /// `keeps`, never does), sets the handle.
  void finish(Loan loan, Result result, bool keeps = false);
  /// Gives tensors that were handed out back with an error, which names each of them. Never drops what they
  /// hold.
  void give_back(std::vector<Loan> loans, const Status& status);
  /// The error of the first entry that ended with Code::aborted; empty: none has.
  [[nodiscard]] std::string first_aborted() const;
  /// All that are under way, those that were handed out, too, as they would stand in a dump; the oldest
  /// first.
  [[nodiscard]] std::vector<Record> under_way() const;
  /// Hands out all that wait here, in no order; whoever puts from now on gets `status`. The first status
  /// counts.
  std::vector<Loan> close(const Status& status);
  [[nodiscard]] bool is_closed() const;
  /// The same for one process set, which is removed. The table forgets it when the last of its entries is
  /// finished.
  std::vector<Loan> remove_group(int group);

 private:
  using LoansByName = std::unordered_map<std::string, Loan>;
  /// The entries of a process set.
  struct Group {
    LoansByName loans = {};  // without a handle: handed out
    bool left = false;       // this rank has removed it: nothing more can be put
    bool removed = false;    // so have all its ranks
  };
  /// A request that has not been taken.
  struct Waiting {
    Request request;
    std::shared_ptr<Event> input;  // null: it is there
    [[nodiscard]] bool is_on_host() const { return request.device == DeviceKind::host; }
    [[nodiscard]] bool is_computed() const { return !input || input->reached(); }
  };
  using Requests = std::vector<Waiting>;
  using WaitingByGroup = std::map<int, Requests>;
  static Requests::iterator end_of_ready(Requests& requests);
  static Requests::iterator end_of_computed(Requests& requests);
  void put_back(WaitingByGroup left);
  void open(const Asked& asked);
  Handle insert(Entry&& entry, Asked&& asked, TimePoint now);
  void free(int group, const std::string& name, const MemoryUse& memory);
  void release(Loan& loan);
  static void hand_out(LoansByName& loans, std::vector<Loan>& to);

  std::shared_ptr<Helper> helper_;
  std::shared_ptr<LentMemory> lent_;
  const EndCode end_code_;
  KindsOnGpu launched_;
  std::atomic<bool> only_computed_{false};

  mutable std::mutex mutex_;
  std::unordered_map<int, Group> groups_{{kWorld, {}}};
  WaitingByGroup requests_;
  std::size_t requests_on_host_ = 0;  // of requests_
  std::optional<Status> closed_;
  std::string first_aborted_;
};

}  // namespace hora
