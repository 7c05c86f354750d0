// SPDX-License-Identifier: Apache-2.0
#include "test/bench/list.h"

#include "core/base/memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora::bench {
namespace {

using Buffer = std::shared_ptr<std::byte>;

/// Where the tensors lie, in the order in which they are submitted.
class List {
 public:
  List(Runtime& runtime, Buffer buffer, const std::string& name, const Options& options)
      : runtime_(runtime), buffer_(std::move(buffer)) {
    std::size_t first = 0;
    for (const std::size_t count : options.list) {
      Entry entry;
      entry.name = fmt::format("{}.layer.{}.weight", name, entries_.size());
      entry.shape = {static_cast<std::int64_t>(count)};
      entry.op = options.op;
      entry.input = entry.output = buffer_.get() + first * sizeof(float);
      entries_.push_back(std::move(entry));
      firsts_.push_back(first);
      first += count;
    }
    std::ranges::reverse(entries_);
    std::ranges::reverse(firsts_);
  }

  [[nodiscard]] void* data() const { return buffer_.get(); }
  /// Calls `before` for each tensor, with its first element and their number, just before it is submitted.
  void reduce(const Contender::Write& before) {
    std::vector<Handle> handles;
    handles.reserve(entries_.size());
    each([&](const Entry& entry, std::size_t first, std::size_t count) {
      before(first, count);
      handles.push_back(runtime_.submit(entry));
    });
    for (const auto& handle : handles) handle.wait();
  }
  void produce(const Contender::Write& write) const {
    each([&](const Entry& /*entry*/, std::size_t first, std::size_t count) { write(first, count); });
  }

 private:
  void each(const std::function<void(const Entry&, std::size_t, std::size_t)>& act) const {
    for (std::size_t i = 0; i < entries_.size(); ++i)
      act(entries_[i], firsts_[i], static_cast<std::size_t>(entries_[i].shape.front()));
  }

  Runtime& runtime_;
  Buffer buffer_;
  std::vector<Entry> entries_;
  std::vector<std::size_t> firsts_;
};

class ThereContender final : public Contender {
 public:
  ThereContender(std::string name, Runtime& runtime, Buffer buffer, const Options& options)
      : name_(std::move(name)), list_(runtime, std::move(buffer), name_, options) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] void* data() const override { return list_.data(); }
  void run(std::size_t /*count*/) override {
    list_.reduce([](std::size_t, std::size_t) {});
  }

 private:
  std::string name_;
  List list_;
};

/// Writes the tensors itself, and reduces them as DistributedOptimizer does, or does nothing with them.
class WritingContender final : public Contender {
 public:
  WritingContender(std::string name, bool reduces, Runtime& runtime, Buffer buffer, const Options& options)
      : name_(std::move(name)),
        reduces_(reduces),
        runtime_(runtime),
        list_(runtime, std::move(buffer), name_, options) {}

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] bool waits_for_others() const override { return reduces_; }
  [[nodiscard]] void* data() const override { return list_.data(); }
  [[nodiscard]] bool is_exact() const override { return reduces_; }
  [[nodiscard]] bool produces() const override { return true; }
  void run(std::size_t /*count*/) override {}
  void produce_and_run(const Write& write) override {
    if (!reduces_) {
      list_.produce(write);
    } else if (runtime_.can_overlap()) {
      list_.reduce(write);
    } else {
      list_.produce(write);
      const BlockingScope blocking;
      list_.reduce([](std::size_t, std::size_t) {});
    }
  }

 private:
  std::string name_;
  bool reduces_;
  Runtime& runtime_;
  List list_;
};

}  // namespace

Contenders list_contenders(Runtime& runtime, const Options& options) {
  Contenders contenders;
  if (options.arena) {
    const Buffer buffer = runtime.allocate(options.end);
    contenders.push_back(std::make_unique<ThereContender>("arena", runtime, buffer, options));
    contenders.push_back(std::make_unique<WritingContender>("behind", true, runtime, buffer, options));
    contenders.push_back(std::make_unique<WritingContender>("produce", false, runtime, buffer, options));
  }
  if (options.private_memory) {
    contenders.push_back(
        std::make_unique<ThereContender>("private", runtime, allocate_zeroed(options.end), options));
  }
  return contenders;
}

}  // namespace hora::bench
