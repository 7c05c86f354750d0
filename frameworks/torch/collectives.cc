// SPDX-License-Identifier: Apache-2.0
// The operations that move rows from rank to rank, and the barrier.
#include "frameworks/torch/gradient.h"
#include "frameworks/torch/tensor.h"

#include <numeric>

namespace hora {
namespace {

using Tensors = std::vector<torch::Tensor>;

TensorHandle broadcast_into(Runtime& hora, const torch::Tensor& input, const torch::Tensor& output, int root,
                            const OperationOptions& options,
                            const std::function<torch::Tensor(const torch::Tensor&)>& finish) {
  auto handle =
      submit_named(hora, "broadcast", options.name, options.process_set, [&](const std::string& name) {
        Entry entry = lend(input, output, Operation::broadcast, name, options.process_set);
        entry.root = root;
        return entry;
      });
  return {{std::move(handle)},
          [output, finish](const std::vector<Result>& /*results*/) { return finish(output); },
          lies_on(input)};
}

// --- allgather ---

/// The tensors of all ranks, and how many rows each brought.
struct Gathered {
  torch::Tensor whole;
  std::vector<std::int64_t> rows;
};

torch::Tensor checked_rows(const torch::Tensor& tensor, const std::string& name) {
  const torch::Tensor memory = lendable(tensor, name);
  check_rows(memory, name);
  return memory;
}

/// Contiguous tensors with rows.
Tensors checked_group(torch::TensorList tensors, const std::string& group_label) {
  check_group(tensors, group_label);
  Tensors memory;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    memory.push_back(checked_rows(tensors[i], member_name(group_label, i, tensors.size())));
  return memory;
}

enum class Name { own, of_group };

Pending<std::vector<Gathered>> gather(Runtime& hora, const Tensors& memory, const char* operation, Name kind,
                                      const OperationOptions& options) {
  std::vector<std::shared_ptr<torch::Tensor>> outputs;
  const auto make = [&](const std::string& name) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < memory.size(); ++i) {
      const auto own_name = kind == Name::own ? name : member_name(name, i, memory.size());
      entries.push_back(lend(memory[i], {}, Operation::allgather, own_name, options.process_set));
      outputs.push_back(allocate_output(entries.back(), memory[i]));
    }
    return entries;
  };
  auto handles = submit_named(hora, operation, options.name, options.process_set, make);
  return {std::move(handles),
          [outputs](const std::vector<Result>& results) {
            std::vector<Gathered> all;
            for (std::size_t i = 0; i < outputs.size(); ++i)
              all.push_back({used_here(*outputs[i]), results[i].rows});
            return all;
          },
          device_among(memory)};
}

Pending<std::vector<Gathered>> gather_one(Runtime& hora, const torch::Tensor& tensor,
                                          const OperationOptions& options) {
  const torch::Tensor memory = checked_rows(tensor, label("allgather", options.name));
  return gather(hora, {memory}, "allgather", Name::own, options);
}

Pending<std::vector<Gathered>> gather_group(Runtime& hora, torch::TensorList tensors,
                                            const OperationOptions& options) {
  const Tensors memory = checked_group(tensors, label("grouped_allgather", options.name));
  return gather(hora, memory, "grouped_allgather", Name::of_group, options);
}

Tensors wholes(const std::vector<Gathered>& all) {
  Tensors tensors;
  for (const auto& gathered : all) tensors.push_back(gathered.whole);
  return tensors;
}

/// This rank's rows of something like the whole.
torch::Tensor own_rows(const torch::Tensor& whole, const std::vector<std::int64_t>& rows, std::size_t place) {
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(place);
  return whole.narrow(0, std::accumulate(rows.begin(), end, std::int64_t{0}), *end);
}

ReduceOptions mean_of(const OperationOptions& options) {
  return {.name = gradient_name(options.name), .process_set = options.process_set};
}

// --- reducescatter ---

struct Scattered {
  torch::Tensor input;
  torch::Tensor output;  // this rank's rows
};

Scattered scatter(const torch::Tensor& tensor, const std::string& name, const PlaceInSet& own) {
  const torch::Tensor input = checked_rows(tensor, name);
  std::vector<std::int64_t> shape = input.sizes().vec();
  shape.front() = scattered_rows(shape.front(), own.size)[own.place];
  return {input, torch::empty(shape, input.options())};
}

Entry scatter_entry(const Scattered& scattered, const std::string& name, const ReduceOptions& options) {
  Entry entry = lend(scattered.input, scattered.output, Operation::reducescatter, name, options.process_set);
  set_reduction(entry, options);
  return entry;
}

bool has_gradient(ReduceOp op) { return op == ReduceOp::average || op == ReduceOp::sum; }

/// A sum's gradient is that of an average times the number of ranks.
double gradient_factor(const ReduceOptions& options, int ranks) {
  return options.prescale * options.postscale * (options.op == ReduceOp::sum ? ranks : 1);
}

}  // namespace

TensorHandle broadcast_async(Runtime& hora, const torch::Tensor& tensor, int root,
                             const OperationOptions& options) {
  const torch::Tensor input = lendable(tensor, label("broadcast", options.name));
  return broadcast_into(hora, input, torch::empty_like(input), root, options,
                        [](const torch::Tensor& output) { return used_here(output); });
}

TensorHandle broadcast_async_(Runtime& hora, const torch::Tensor& tensor, int root,
                              const OperationOptions& options) {
  const torch::Tensor memory = lendable_in_place(tensor, label("broadcast", options.name));
  return broadcast_into(hora, memory, memory, root, options,
                        [tensor](const torch::Tensor& output) { return write_back(tensor, output); });
}

torch::Tensor broadcast_(Runtime& hora, const torch::Tensor& tensor, int root,
                         const OperationOptions& options) {
  const BlockingScope blocking;
  static_cast<void>(broadcast_async_(hora, tensor, root, options).wait());
  return tensor;
}

torch::Tensor broadcast(Runtime& hora, const torch::Tensor& tensor, int root,
                        const OperationOptions& options) {
  const BlockingScope blocking;
  const torch::Tensor output = broadcast_async(hora, tensor, root, options).wait();
  if (!is_tracked(tensor)) return output;
  return with_gradient(tensor, output, [&hora, root, options](const Tensors& gradients) {
    const torch::Tensor mean = allreduce(hora, gradients[0], mean_of(options));
    return Tensors{hora.rank() == root ? mean : torch::zeros_like(mean)};
  });
}

TensorHandle allgather_async(Runtime& hora, const torch::Tensor& tensor, const OperationOptions& options) {
  const auto gathering = gather_one(hora, tensor, options);
  return gathering.then([](const std::vector<Gathered>& all) { return all[0].whole; });
}

torch::Tensor allgather(Runtime& hora, const torch::Tensor& tensor, const OperationOptions& options) {
  const BlockingScope blocking;
  const Gathered gathered = gather_one(hora, tensor, options).wait()[0];
  if (!is_tracked(tensor)) return gathered.whole;
  const auto own = place_in_set(hora, options.process_set, options.name);
  return with_gradient(tensor, gathered.whole,
                       [&hora, options, own, rows = gathered.rows](const Tensors& gradients) {
                         const torch::Tensor mean = allreduce(hora, gradients[0], mean_of(options));
                         return Tensors{own_rows(mean, rows, own.place)};
                       });
}

TensorsHandle grouped_allgather_async(Runtime& hora, torch::TensorList tensors,
                                      const OperationOptions& options) {
  return gather_group(hora, tensors, options).then(wholes);
}

std::vector<torch::Tensor> grouped_allgather(Runtime& hora, torch::TensorList tensors,
                                             const OperationOptions& options) {
  const BlockingScope blocking;
  const auto gathered = gather_group(hora, tensors, options).wait();
  Tensors outputs = wholes(gathered);
  if (!is_tracked(tensors)) return outputs;
  const auto floats = differentiable(tensors);
  const auto own = place_in_set(hora, options.process_set, options.name);
  std::vector<std::vector<std::int64_t>> rows;
  for (const auto i : floats) rows.push_back(gathered[i].rows);
  with_gradient(select(tensors, floats), select(outputs, floats),
                [&hora, options, own, rows](const Tensors& gradients) {
                  Tensors means = grouped_allreduce(hora, gradients, mean_of(options));
                  for (std::size_t i = 0; i < means.size(); ++i)
                    means[i] = own_rows(means[i], rows[i], own.place);
                  return means;
                });
  return outputs;
}

Pending<Alltoall> alltoall_async(Runtime& hora, const torch::Tensor& tensor,
                                 const std::vector<std::int64_t>& splits, const OperationOptions& options) {
  const torch::Tensor input = checked_rows(tensor, label("alltoall", options.name));
  std::shared_ptr<torch::Tensor> output;
  auto handle =
      submit_named(hora, "alltoall", options.name, options.process_set, [&](const std::string& name) {
        Entry entry = lend(input, {}, Operation::alltoall, name, options.process_set);
        entry.splits = splits;
        output = allocate_output(entry, input);
        return entry;
      });
  return {
      {std::move(handle)},
      [output](const std::vector<Result>& results) { return Alltoall{used_here(*output), results[0].rows}; },
      lies_on(input)};
}

Alltoall alltoall(Runtime& hora, const torch::Tensor& tensor, const std::vector<std::int64_t>& splits,
                  const OperationOptions& options) {
  const BlockingScope blocking;
  Alltoall received = alltoall_async(hora, tensor, splits, options).wait();
  if (!is_tracked(tensor)) return received;
  const auto gradient = [&hora, options, counts = received.received_splits,
                         rows = tensor.size(0)](const Tensors& gradients) {
    const auto back = alltoall(hora, gradients[0], counts, for_gradient(options)).output;
    std::vector<std::int64_t> unsent = back.sizes().vec();
    unsent.front() = rows - back.size(0);
    return Tensors{torch::cat({back, torch::zeros(unsent, back.options())})};
  };
  received.output = with_gradient(tensor, received.output, gradient);
  return received;
}

TensorHandle reducescatter_async(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options) {
  const auto label_of_it = label("reducescatter", options.name);
  const auto scattered = scatter(tensor, label_of_it, place_in_set(hora, options.process_set, label_of_it));
  auto handle =
      submit_named(hora, "reducescatter", options.name, options.process_set,
                   [&](const std::string& name) { return scatter_entry(scattered, name, options); });
  return {{std::move(handle)},
          [output = scattered.output](const std::vector<Result>& /*results*/) { return used_here(output); },
          lies_on(scattered.input)};
}

torch::Tensor reducescatter(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options) {
  const BlockingScope blocking;
  const torch::Tensor output = reducescatter_async(hora, tensor, options).wait();
  if (!has_gradient(options.op) || !is_tracked(tensor)) return output;
  const auto own = place_in_set(hora, options.process_set, options.name);
  const OperationOptions back{gradient_name(options.name), options.process_set};
  return with_gradient(tensor, output,
                       [&hora, back, factor = gradient_factor(options, own.size)](const Tensors& gradients) {
                         return Tensors{allgather(hora, gradients[0] * factor, back)};
                       });
}

TensorsHandle grouped_reducescatter_async(Runtime& hora, torch::TensorList tensors,
                                          const ReduceOptions& options) {
  const auto group_label = label("grouped_reducescatter", options.name);
  check_group(tensors, group_label);
  const auto own = place_in_set(hora, options.process_set, group_label);
  std::vector<Scattered> group;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    group.push_back(scatter(tensors[i], member_name(group_label, i, tensors.size()), own));
  const auto make = [&](const std::string& name) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < group.size(); ++i)
      entries.push_back(scatter_entry(group[i], member_name(name, i, group.size()), options));
    return entries;
  };
  Tensors outputs;
  for (const auto& scattered : group) outputs.push_back(scattered.output);
  return {submit_named(hora, "grouped_reducescatter", options.name, options.process_set, make),
          [outputs](const std::vector<Result>& /*results*/) {
            for (const auto& output : outputs) used_here(output);
            return outputs;
          },
          device_among(tensors)};
}

std::vector<torch::Tensor> grouped_reducescatter(Runtime& hora, torch::TensorList tensors,
                                                 const ReduceOptions& options) {
  const BlockingScope blocking;
  Tensors outputs = grouped_reducescatter_async(hora, tensors, options).wait();
  if (!has_gradient(options.op) || !is_tracked(tensors)) return outputs;
  const auto floats = differentiable(tensors);
  const auto own = place_in_set(hora, options.process_set, options.name);
  const OperationOptions back{gradient_name(options.name), options.process_set};
  with_gradient(select(tensors, floats), select(outputs, floats),
                [&hora, back, factor = gradient_factor(options, own.size)](const Tensors& gradients) {
                  Tensors scaled;
                  for (const auto& gradient : gradients) scaled.push_back(gradient * factor);
                  return grouped_allgather(hora, scaled, back);
                });
  return outputs;
}

void barrier(Runtime& hora, int process_set) {
  const auto make = [process_set](const std::string& name) {
    Entry entry;
    entry.operation = Operation::barrier;
    entry.name = name;
    entry.process_set = process_set;
    return entry;
  };
  const BlockingScope blocking;
  submit_named(hora, "barrier", "", process_set, make).wait();
}

}  // namespace hora
