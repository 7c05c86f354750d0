// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/group.h"
#include "core/fuse/pack.h"
#include "core/fuse/plan.h"
#include "core/gpu/gpu_lanes.h"
#include "core/runtime/tensor_table.h"
#include "core/watch/recorder.h"
#include "core/watch/tracer.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hora {

/// Carries out a group's batches: takes their tensors from the table, moves them over the lane, and gives
/// them back. If moving fails, the tensors get the error, and it is thrown on: the run is over. A rank that
/// has joined has no tensors: it moves stand-ins.
///
/// On a GPU the work is put on the lane's stream, behind what makes the inputs, and the completer gives the
/// tensors back; users' streams can wait for it at once. *Engine only.*
class Executor {
 public:
  Executor(Lane& lane, TensorTable& table, Recorder& recorder, Tracer& tracer, Members members,
           std::size_t fusion_threshold, std::optional<GpuSide> gpu = {})
      : lane_(lane),
        table_(table),
        recorder_(recorder),
        tracer_(tracer),
        members_(std::move(members)),
        packer_(lane, fusion_threshold),
        gpu_(std::move(gpu)) {}

  [[nodiscard]] const Members& members() const { return members_; }
  [[nodiscard]] Lane& lane() { return lane_; }

  /// How many bytes travel together at the most, from now on.
  void fuse_up_to(std::size_t bytes) { packer_.fuse_up_to(bytes); }
  /// `decided`: when the decisions were heard.
  void carry_out(std::span<const Decision> decisions, const Batch& batch, TimePoint decided);
  /// Gives the tensor of a decision back with this result, if this rank has it.
  void conclude(const Decision& decision, Result result, TimePoint decided);

 private:
  /// The instants of a batch, and how many tensors it has.
  struct Course {
    TimePoint decided;
    TimePoint started;
    std::vector<Span> spans = {};
    int together = 1;
  };
  /// A decision and this rank's tensor for it.
  struct Item {
    const Decision* decision = nullptr;
    Loan loan;  ///< without a handle: a stand-in
    Result result;
    /// A stand-in's memory, or that of an output, until the work is done.
    std::shared_ptr<std::byte> memory = {};
  };
  [[nodiscard]] int size() const { return static_cast<int>(members_.ranks.size()); }
  [[nodiscard]] std::vector<Span> spans_of(const Decision& decision, TimePoint started) const;
  [[nodiscard]] static std::string describe(const std::vector<Item>& items);
  void run(std::vector<Item>& items);
  void fail(std::vector<Item> items, const Status& why, const Course& course);
  void launch(std::vector<Item>&& items, const Course& course, const Status& failure);
  void land(std::vector<Item>& items, const Course& course, const Status& status, bool ended,
            const std::uint32_t* flag);
  Item borrow(const Decision& decision);
  [[nodiscard]] Item stand_in(const Decision& decision) const;
  void move(std::vector<Item>& items);
  void allreduce(std::vector<Item>& items);
  void reduce(std::span<const Segment> pieces, const Decision& kind);
  void reduce_by_adasum(std::span<const Segment> pieces, const Request& request);
  void broadcast(const std::vector<Item>& items);
  void allgather(Item& item);
  void alltoall(Item& item);
  void reducescatter(Item& item);
  void gather(Item& item);
  void scatter(Item& item);
  void reduce_to_root(Item& item);
  void scan(Item& item);
  /// The place of the root that a decision speaks of.
  [[nodiscard]] std::size_t root_of(const Decision& decision) const;
  void give_back(Item item, const Course& course, bool keeps = false);
  void record(const Item& item, const Course& course);
  void* allocate(Item& item, const std::vector<std::int64_t>& shape);

  Lane& lane_;
  TensorTable& table_;
  Recorder& recorder_;
  Tracer& tracer_;
  Members members_;
  Packer packer_;
  std::optional<GpuSide> gpu_;
  std::vector<std::shared_ptr<Event>> inputs_;  // of the batch that is under way: before them it cannot begin
  std::shared_ptr<std::uint32_t> flag_;         // of the batch that is under way, if it wants one
};

}  // namespace hora
