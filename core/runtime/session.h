// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launcher/question.h"
#include "core/runtime/engine.h"
#include "core/runtime/lasting.h"
#include "core/runtime/loop.h"
#include "core/runtime/messages.h"
#include "core/runtime/process_sets.h"
#include "core/runtime/tensor_table.h"
#include "core/runtime/timeline.h"

#include <hora/hora.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hora {

/// One generation of a job: its ranks, connected, and the engine that carries out operations with them. Its
/// handles may outlive it. Functions that throw Error(unavailable) in a forked child are those that need the
/// engine's thread. Thread-safe.
class Session {
 public:
  /// Starts the engine. `goes_on`: operations that end with this generation end with
  /// Error(generation_ended), as the job can have another one; else with Error(aborted). `lasting` outlives
  /// this.
  Session(World world, const Config& config, Lasting& lasting, bool goes_on);
  /// The generation must have ended, or ends now for all.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Membership& membership() const { return world_.membership; }
  [[nodiscard]] const Config& config() const { return config_; }
  [[nodiscard]] const ProcessSets& sets() const { return sets_; }
  [[nodiscard]] bool can_overlap() const;
  [[nodiscard]] bool is_in_own_process() const { return engine_->is_in_own_process(); }
  void check_process() const { engine_->check_process(); }

  // As Runtime's.
  Handle submit(Entry entry);
  std::vector<Handle> submit(std::vector<Entry> group);
  /// Submits operations that were captured into a graph, in a run of the graph. Their inputs are there.
  std::vector<Handle> submit_again(std::vector<Entry> group, const std::shared_ptr<GraphRun>& run);
  /// Waits for the runs of graphs that have been launched, so that what they ask for comes before what the
  /// caller does next. Not if the generation has ended, as that has failed then. On a user's thread. Throws
  /// Error(internal) if the device has failed.
  void finish_graphs();
  Handle send(Message message);
  Handle receive(Message wanted);
  [[nodiscard]] std::optional<Envelope> probe(int source, int tag, int process_set);
  [[nodiscard]] std::uint64_t next_number(int process_set);
  void return_number(std::uint64_t number, int process_set);
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);
  void start_timeline(const std::string& path, bool mark_cycles);
  void stop_timeline();

  /// Leaves the generation. Waits until every rank has, or with a `reason` for nobody. Idempotent.
  void leave(const std::string& reason);
  /// Leaves for this reason, also while another thread is in `leave`.
  void fail(const std::string& why);
  /// Ends the generation on this rank, as another one follows. As `fail`, but no launcher is told.
  void end(const Status& why);
  /// Waits until no thread runs the engine, or will. Only after `leave`, and not while a lock is held that
  /// users' callbacks may wait for.
  void stop();
  /// After `stop`: waits for a GPU that has not ended what this generation gave it, which may still write to
  /// users' tensors. `check` is called now and then, and may throw. Throws Error(internal) if it takes longer
  /// than `most`, or the GPU has failed.
  void await_gpu(std::chrono::milliseconds most, const std::function<void()>& check);

  /// How this rank is.
  [[nodiscard]] const RankState& state() const { return loop_.state(); }
  /// The answer to a question of the launcher's.
  Reply answer(const Question& question);

 private:
  [[nodiscard]] std::string with_its_cause(const std::string& reason) const;
  void check_usable();
  [[nodiscard]] Asked admitted(const Entry& entry) const;
  [[nodiscard]] std::vector<Asked> admitted(const std::vector<Entry>& group) const;
  [[nodiscard]] bool is_captured(const Entry& entry);
  void prepare(const Entry& entry, Asked& asked, const std::shared_ptr<GraphRun>& run);
  std::vector<Handle> capture(std::vector<Entry> group, const std::vector<Asked>& asked);
  std::vector<Handle> put(std::vector<Entry> group, std::vector<Asked> asked,
                          const std::shared_ptr<GraphRun>& run);

  // In the order in which each needs those above it.
  const Config config_;
  World world_;
  Lasting& lasting_;
  TensorTable table_;
  ProcessSets sets_;
  Timeline timeline_;
  Messages messages_;
  Loop loop_;
  std::mutex leaving_mutex_;
  std::mutex numbers_mutex_;
  std::map<int, std::uint64_t> numbers_;  // by process set
  std::shared_ptr<Engine> engine_;
};

}  // namespace hora
