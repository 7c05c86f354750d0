// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/torch.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hora::elastic {

/// The buffers of a model, but for undefined ones. Complex numbers are pairs of real ones, in the same
/// memory.
[[nodiscard]] NamedTensors buffers_of(const torch::nn::Module& model);

/// The buffers of a model during a step of several microbatches, on several ranks.
///
/// Every microbatch begins with the values from before the step. A floating-point buffer then changes by the
/// mean of the changes over all samples of the step; any other buffer changes as in the first microbatch. So
/// the values do not depend on the number of ranks, and are the same on all of them. A buffer that a forward
/// pass has made or reshaped keeps what that pass has put there.
///
/// Only buffers that change are sent: those of normalisation layers, and those that any rank has seen change.
/// The ranks exchange which these are when `others` is not 0 on one of them. Refers to Runtime and model.
class Buffers {
 public:
  Buffers(Runtime& hora, torch::nn::Module& model) : hora_(hora), model_(model) {}

  /// Forgets what the ranks of the former generation have agreed on, and what they were sending.
  void begin_generation();
  /// Notes the values.
  void begin_step();
  /// Brings the values back from before the step.
  void restore();
  /// Takes in the changes of a microbatch, whose part of the step's samples is `weight`. `is_first`: it is
  /// the first microbatch of the step. `restore` is to follow, once backward() needs them no more.
  void add(double weight, bool is_first);

  /// The number of buffers that have changed here and that the ranks do not send.
  [[nodiscard]] std::int64_t others() const;
  /// Begins to add up the changes of all ranks. All ranks call it in each step.
  void start();
  /// Waits for the changes of all ranks. All ranks call it in each step. `others`: some rank has seen others
  /// change than those that are sent.
  void finish(bool others);
  /// Makes the buffers what they are after the step, which counts.
  void make();

 private:
  struct Buffer {
    torch::Tensor before = {};     // the value from before the step
    torch::Tensor change = {};     // that this rank has made in the step; undefined: none
    bool sent = false;             // whether the ranks send it
    const void* memory = nullptr;  // of the buffer, when it had this value
    std::uint32_t version = 0;     // likewise
  };
  struct Known {
    torch::Tensor now;
    Buffer* buffer;
  };
  /// The buffers that were there before the step, and may not have the value from then.
  [[nodiscard]] std::vector<Known> changed();
  static void note(const Known& known);
  void agree();

  Runtime& hora_;
  torch::nn::Module& model_;
  std::map<std::string, Buffer> buffers_;
  std::vector<std::pair<std::vector<Buffer*>, TensorHandle>> sums_;  // of the changes of all ranks
};

}  // namespace hora::elastic
