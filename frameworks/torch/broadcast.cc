// SPDX-License-Identifier: Apache-2.0
#include <hora/alike.h>
#include <hora/torch.h>

#include "frameworks/torch/optimizer_state.h"
#include "frameworks/torch/tensor.h"
#include "frameworks/torch/text.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iomanip>
#include <iterator>
#include <map>
#include <sstream>

namespace hora {
namespace {

/// Whether memory of a tensor is in one of these ranges, which do not overlap; else adds its own.
bool is_among(const torch::Tensor& tensor, std::map<std::byte*, std::byte*>& ranges) {
  auto* const begin = static_cast<std::byte*>(tensor.data_ptr());
  std::byte* const end = begin + tensor.nbytes();
  const auto next = ranges.lower_bound(end);
  if (begin == end || (next != ranges.begin() && std::prev(next)->second > begin)) return begin != end;
  ranges.emplace(begin, end);
  return false;
}

/// All together or none.
void broadcast_group_(Runtime& hora, const NamedTensors& tensors, int root, int process_set) {
  std::vector<torch::Tensor> memory;
  std::vector<Entry> entries;
  std::map<std::byte*, std::byte*> lent;
  for (const auto& item : tensors) {
    const std::string name = "broadcast.parameters." + item.key();
    memory.push_back(lendable_in_place(item.value(), name));
    if (is_among(memory.back(), lent)) memory.back() = memory.back().clone();  // tied parameters
    entries.push_back(lend(memory.back(), memory.back(), Operation::broadcast, name, process_set));
    entries.back().root = root;
  }
  if (entries.empty()) return;
  static_cast<void>(wait_for_all(hora.submit(std::move(entries)), device_among(memory)));
  for (std::size_t i = 0; i < memory.size(); ++i)
    static_cast<void>(write_back(tensors.items()[i].value(), memory[i]));
}

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
  std::uint64_t x = (hash ^ word) * 0x9e3779b97f4a7c15;
  x ^= x >> 32;
  return x * 0xbf58476d1ce4e5b9;
}

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream text;
  text << std::hex << std::setfill('0') << std::setw(16) << number;
  return text.str();
}

/// The text that `check_replicas` compares: equal only if all elements are, bit by bit.
std::string description(const NamedTensors::Item& item) {
  const torch::Tensor memory = lendable(item.value(), "replicas." + item.key()).cpu();
  const auto* next = static_cast<const std::byte*>(memory.data_ptr());
  std::uint64_t hash = memory.nbytes();
  for (std::size_t left = memory.nbytes(); left > 0;) {
    std::uint64_t word = 0;
    const std::size_t taken = std::min(left, sizeof(word));
    std::memcpy(&word, next, taken);
    hash = mixed(hash, word);
    next += taken;
    left -= taken;
  }
  return text_of("{}[{}] with the checksum {}", name(dtype_of(memory, item.key())),
                 joined(memory.sizes(), ","), hexadecimal(mixed(hash, 0)));
}

OperationOptions part_of(OperationOptions options, const char* suffix) {
  if (!options.name.empty()) options.name += suffix;
  return options;
}

/// `failed_with`: see Entry.
std::int64_t broadcast_size(Runtime& hora, std::int64_t size, const std::string& failed_with, int root,
                            const OperationOptions& options) {
  const torch::Tensor memory = torch::tensor(size);
  const auto make = [&](const std::string& name) {
    Entry entry = lend(memory, memory, Operation::broadcast, name, options.process_set);
    entry.root = root;
    entry.failed_with = failed_with;
    return entry;
  };
  const BlockingScope blocking;
  submit_named(hora, "broadcast", part_of(options, ".length").name, options.process_set, make).wait();
  return memory.item<std::int64_t>();
}

}  // namespace

void broadcast_parameters(Runtime& hora, const NamedTensors& tensors, int root, int process_set) {
  std::vector<Item> items;
  for (const auto& item : tensors) {
    const DType dtype = dtype_of(item.value(), "parameters." + item.key());
    items.push_back({item.key(), text_of("{}[{}]", name(dtype), joined(item.value().sizes(), ","))});
  }
  require_alike(hora, "parameters.alike", "the parameters", items, process_set);
  broadcast_group_(hora, tensors, root, process_set);
}

void broadcast_parameters(Runtime& hora, const torch::nn::Module& module, int root, int process_set) {
  NamedTensors all = module.named_parameters();
  all.update(module.named_buffers());
  broadcast_parameters(hora, all, root, process_set);
}

void check_replicas(Runtime& hora, const NamedTensors& tensors, int process_set) {
  std::vector<Item> items;
  for (const auto& item : tensors) items.push_back({item.key(), description(item)});
  require_alike(hora, "replicas", "the replicas", items, process_set);
}

void check_replicas(Runtime& hora, const torch::nn::Module& module, int process_set) {
  check_replicas(hora, module.named_parameters(), process_set);
}

std::string broadcast_bytes(Runtime& hora, const std::function<std::string()>& make, int root,
                            const OperationOptions& options) {
  std::string bytes;
  std::exception_ptr failure;
  std::string failed_with;
  if (hora.rank() == root) {
    try {
      bytes = make();
    } catch (const std::exception& error) {
      failure = std::current_exception();
      failed_with = text_of("object could not be made into bytes: {}", error.what());
    }
  }
  try {
    const auto size = static_cast<std::int64_t>(bytes.size());
    bytes.resize(static_cast<std::size_t>(broadcast_size(hora, size, failed_with, root, options)));
  } catch (const Error&) {
    if (failure) std::rethrow_exception(failure);
    throw;
  }
  broadcast_(hora, torch::from_blob(bytes.data(), {static_cast<std::int64_t>(bytes.size())}, torch::kUInt8),
             root, part_of(options, ".bytes"));
  return bytes;
}

void broadcast_optimizer_state(Runtime& hora, torch::optim::Optimizer& optimizer, int root, int process_set) {
  const std::string bytes = broadcast_bytes(hora, [&] { return bytes_of(optimizer); }, root,
                                            {.name = "optimizer_state", .process_set = process_set});
  if (hora.rank() != root) load_bytes(optimizer, bytes);
}

}  // namespace hora
