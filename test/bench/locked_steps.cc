// SPDX-License-Identifier: Apache-2.0
// hrun -np N locked_steps STEPS shape|other|missing FOLDER: the cost of agreeing once steps repeat. The
// gradients of ResNet-50, cut to a few elements each as only control is looked at, are reduced in STEPS equal
// steps; in one more the last rank goes astray with one of them: it has another shape, another tensor comes
// in its place and it comes late, or it only comes late. Each rank writes what it has seen to
// FOLDER/rankN.json.
#include "test/bench/counting_control.h"
#include "test/bench/resnet50.h"
#include "test/support/join_job.h"

#include <hora/hora.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

namespace hora::bench {
namespace {

constexpr std::int64_t kMostElements = 4096;
constexpr std::size_t kAstray = 80;              // the tensor with which the last rank goes astray
constexpr std::chrono::milliseconds kLate{500};  // what comes late; locks have ended long before

enum class Kind : std::uint8_t { shape, other, missing };

Kind kind_named(const std::string& text) {
  if (text == "shape") return Kind::shape;
  if (text == "other") return Kind::other;
  if (text == "missing") return Kind::missing;
  throw std::invalid_argument(fmt::format("'{}': expected shape, other or missing", text));
}

double in_ms(Clock::rep from, Clock::rep to) {
  return std::chrono::duration<double, std::milli>(Clock::duration(to - from)).count();
}
Clock::rep now() { return Clock::now().time_since_epoch().count(); }

/// A tensor of the model, and the result that each of its elements must have.
struct Tensor {
  std::string name;
  std::int64_t count = 0;
  std::shared_ptr<std::byte> memory;

  [[nodiscard]] std::span<float> elements() const {
    return {reinterpret_cast<float*>(memory.get()), static_cast<std::size_t>(count)};
  }
};

/// The input of a rank: small whole numbers, whose sums are exact.
float brought(int rank, int step, std::size_t tensor) {
  return static_cast<float>((3 * rank + step + static_cast<int>(tensor)) % 8);
}

class Training {
 public:
  Training(Runtime& runtime, std::shared_ptr<Sent> sent) : runtime_(runtime), sent_(std::move(sent)) {
    for (const std::int64_t elements : resnet50()) add(fmt::format("layer.{}", tensors_.size()), elements);
    add("other", 1000);
  }

  /// An equal step: how many messages and bytes it took this rank to send.
  void step() {
    const std::uint64_t messages = sent_->messages;
    const std::uint64_t bytes = sent_->bytes;
    fill();
    for (std::size_t i = of_model(); i-- > 0;) submit(i);
    finish();
    messages_.push_back(sent_->messages - messages);
    bytes_.push_back(sent_->bytes - bytes);
  }

  /// The step in which the last rank goes astray. All tensors are reduced in the end.
  void step_astray(Kind kind) {
    sent_->first = Sent::kNone;
    fill();
    const bool errs = runtime_.rank() + 1 == runtime_.size();
    for (std::size_t i = of_model(); i-- > 0;) {
      if (i == kAstray && errs) {
        astray_ = now();
        if (kind == Kind::shape) submit_misshapen(1);
        if (kind == Kind::other) submit(of_model());
      } else if (i == kAstray && kind == Kind::shape) {
        submit_misshapen(0);
      } else {
        submit(i);
      }
    }
    if (kind == Kind::shape) {
      await_mismatch();
      submit(kAstray);
    } else if (errs || kind == Kind::other) {  // what the others have not asked for yet
      std::this_thread::sleep_for(kLate);
      submit(errs ? kAstray : of_model());
    }
    finish();
  }

  /// The first step in which this rank sent nothing.
  [[nodiscard]] std::size_t locked_from() const {
    return static_cast<std::size_t>(std::ranges::find(messages_, 0U) - messages_.begin());
  }
  /// The mean for each step, from the first locked step on.
  [[nodiscard]] double messages_when_locked() const { return mean(messages_); }
  [[nodiscard]] double bytes_when_locked() const { return mean(bytes_); }
  [[nodiscard]] std::size_t wrong() const { return wrong_; }
  [[nodiscard]] Clock::rep astray() const { return astray_; }  ///< 0 on ranks that do not err
  [[nodiscard]] Clock::rep told() const { return told_; }

 private:
  [[nodiscard]] std::size_t of_model() const { return tensors_.size() - 1; }

  void add(std::string name, std::int64_t elements) {
    const std::int64_t count = std::min(elements, kMostElements);
    const auto room = static_cast<std::size_t>(count + 1) * sizeof(float);
    tensors_.push_back({std::move(name), count, runtime_.allocate(room)});
  }

  void fill() {
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      std::ranges::fill(tensors_[i].elements(), brought(runtime_.rank(), step_, i));
  }

  Entry entry(std::size_t tensor) const {
    Entry entry;
    entry.name = tensors_[tensor].name;
    entry.op = ReduceOp::sum;
    entry.shape = {tensors_[tensor].count};
    entry.input = entry.output = tensors_[tensor].memory.get();
    return entry;
  }

  void submit(std::size_t tensor) {
    under_way_.push_back(runtime_.submit(entry(tensor)));
    submitted_.push_back(tensor);
  }

  void submit_misshapen(std::int64_t more) {
    Entry misshapen = entry(kAstray);
    misshapen.shape.front() += more;
    misshapen.done = [this](const Result&) { told_ = now(); };
    misshapen_.emplace(runtime_.submit(std::move(misshapen)));
  }

  void await_mismatch() {
    try {
      misshapen_->wait();
    } catch (const Error& error) {
      if (error.code() == Code::mismatch &&
          std::string(error.what()).find(tensors_[kAstray].name) != std::string::npos)
        return;
      throw;
    }
    throw std::runtime_error("tensors of different shapes were reduced");
  }

  /// Waits for all that was submitted, and looks at all elements.
  void finish() {
    for (const auto& handle : under_way_) handle.wait();
    for (const std::size_t tensor : submitted_) {
      float expected = 0;
      for (int rank = 0; rank < runtime_.size(); ++rank) expected += brought(rank, step_, tensor);
      const auto elements = tensors_[tensor].elements();
      wrong_ += elements.size() - static_cast<std::size_t>(std::ranges::count(elements, expected));
    }
    under_way_.clear();
    submitted_.clear();
    ++step_;
  }

  [[nodiscard]] double mean(const std::vector<std::uint64_t>& values) const {
    double sum = 0;
    for (std::size_t i = locked_from(); i < values.size(); ++i) sum += static_cast<double>(values[i]);
    return sum / static_cast<double>(std::max<std::size_t>(1, values.size() - locked_from()));
  }

  Runtime& runtime_;
  std::shared_ptr<Sent> sent_;
  std::vector<Tensor> tensors_;  // the model's, and the one that takes another's place
  std::vector<Handle> under_way_;
  std::vector<std::size_t> submitted_;
  std::optional<Handle> misshapen_;
  std::vector<std::uint64_t> messages_;  // of each step
  std::vector<std::uint64_t> bytes_;
  std::atomic<Clock::rep> told_ = 0;
  Clock::rep astray_ = 0;
  std::size_t wrong_ = 0;
  int step_ = 0;
};

/// The greatest of what the ranks bring.
Clock::rep greatest(Runtime& runtime, Clock::rep mine) {
  Entry entry;
  entry.name = "greatest";
  entry.dtype = DType::int64;
  entry.op = ReduceOp::max;
  entry.shape = {1};
  entry.input = entry.output = &mine;
  runtime.submit(std::move(entry)).wait();
  return mine;
}

int run(int steps, Kind kind, const std::string& folder) {
  Config config = Config::from_environment();
  const auto sent = std::make_shared<Sent>();
  World world = join_job(config);
  world.control = std::make_unique<CountingControl>(std::move(world.control), sent);
  Runtime runtime(std::move(world), config);
  Training training(runtime, sent);
  for (int step = 0; step < steps; ++step) training.step();
  training.step_astray(kind);
  const Clock::rep unlocked = sent->first;
  const Clock::rep astray = greatest(runtime, training.astray());

  std::ofstream out(fmt::format("{}/rank{}.json", folder, runtime.rank()));
  out << fmt::format(R"({{"steps until locked": {{"value": {}, "wrong": {}}})", training.locked_from(),
                     training.wrong());
  out << fmt::format(R"(, "messages a locked step": {{"value": {}}})", training.messages_when_locked());
  out << fmt::format(R"(, "bytes a locked step": {{"value": {}}})", training.bytes_when_locked());
  out << fmt::format(R"(, "ms until unlocked": {{"value": {:.3f}}})", in_ms(astray, unlocked));
  if (kind == Kind::shape)
    out << fmt::format(R"(, "ms until told": {{"value": {:.3f}}})", in_ms(astray, training.told()));
  out << "}\n";
  return training.wrong() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hora::bench

int main(int count, char** words) {
  if (count != 4) {
    fmt::print(stderr, "usage: hrun -np N locked_steps STEPS shape|other|missing FOLDER\n");
    return 2;
  }
  try {
    return hora::bench::run(std::atoi(words[1]), hora::bench::kind_named(words[2]), words[3]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "locked_steps: {}\n", error.what());
    return 1;
  }
}
