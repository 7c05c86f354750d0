// SPDX-License-Identifier: Apache-2.0
// A rank of an elastic job for the tests of faults. In one of its steps it comes to a phase, in which its
// arguments have a fault befall some ranks; the job then goes on.
//   elastic_fault_rank STAGE PHASE PLANE FAULT VICTIMS BYTES
// The arguments are those of fault_rank.cc, but a rank is a member here: the first ones are 0 to 3, the
// process in the place of the first lost one is 4. Beside "born", "there", "fault", "told" and "out" a member
// tells the test: "counted" (a step, with its generation and the number of ranks), "made" (all steps, with
// what they sum up to), "lost" (it is lost before the fault). Cues: "go", "now" and "done" as there; "end":
// the training is to end.
#include <hora/hora.h>

#include "test/faults/fault.h"
#include "test/faults/tensor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using hora::befall;
using hora::kLookAgain;
using hora::kSamples;
using hora::Part;
using hora::Stage;
using hora::Tensor;

constexpr int kFirstMembers = 4;
constexpr std::uint64_t kFaultStep = 3;
constexpr auto kCompute = std::chrono::milliseconds(2);
constexpr int kParts = 16;  // of a state

/// The training: its model is the sum of the numbers of the steps that count.
struct State {
  double model = 0;
  std::uint64_t made = 0;
  std::uint64_t shared_in = 0;  ///< the generation in which ranks that have joined got it
};

/// Calls `then` in a thread of its own once the main thread, which is to call something that waits, sleeps.
class OnceItWaits {
 public:
  explicit OnceItWaits(std::function<void()> then)
      : thread_([this, then = std::move(then)] {
          while (!over_ && !hora::main_thread_sleeps()) std::this_thread::sleep_for(kLookAgain);
          if (!over_) then();
        }) {}
  ~OnceItWaits() {
    over_ = true;
    thread_.join();
  }
  OnceItWaits(const OnceItWaits&) = delete;
  OnceItWaits& operator=(const OnceItWaits&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

class Play {
 public:
  Play(Stage& stage, const Part& part) : stage_(stage), part_(part), past_(part.rank >= kFirstMembers) {}

  void run() {
    if (is("before") && !past_) meet("before init");
    connect();
    large_.emplace(*hora_, part_, is("inside") ? part_.elements : 1);
    parts_.reserve(kParts);
    for (int i = 0; is("sharing") && i < kParts; ++i)
      parts_.emplace_back(*hora_, part_, part_.elements / kParts);
    while (!make()) {
    }
    stage_.say("made", {{"steps", state_.made}, {"model", state_.model}});
    leave();
  }

 private:
  [[nodiscard]] bool is(const char* phase) const { return part_.phase == phase; }
  /// Whether the others wait for this rank, where they are not to be done before the fault; it is no victim.
  [[nodiscard]] bool is_late() const { return part_.rank == kFirstMembers - 1; }
  /// Whether this rank is now in the step in which the fault happens.
  [[nodiscard]] bool is_due() const { return !past_ && state_.made + 1 >= kFaultStep; }

  /// Waits until all are here; then the fault happens to its victims.
  void meet(const std::string& where) {
    past_ = true;
    stage_.say("there");
    stage_.await("go");
    if (part_.victim()) befall(stage_, part_, where);
  }
  /// The same, while this rank waits in a call.
  [[nodiscard]] std::function<void()> meeting(const std::string& where) {
    past_ = true;
    return [this, where] {
      stage_.say("there");
      if (!part_.victim()) return;
      stage_.await("go");
      befall(stage_, part_, where);
    };
  }

  void connect() {
    if (is("rendezvous") && is_late()) meet("");
    if (is("rendezvous") && !past_) {
      const OnceItWaits then(meeting("in init"));
      hora_.emplace(hora::init());
    } else {
      hora_.emplace(hora::init());
    }
    if (hora_->generation() == 0) hora_->next_generation();  // the job runs already
  }

  /// Makes one step, in as many generations as that takes. Returns whether it was the last one.
  bool make() {
    while (true) {
      if (hora_->change_is_due()) change();
      try {
        share();
        const bool last = compute();
        if (!commit()) continue;
        ++state_.made;
        state_.model += static_cast<double>(state_.made);
        stage_.say("counted",
                   {{"step", state_.made}, {"generation", hora_->generation()}, {"size", hora_->size()}});
        if (is("counted") && state_.made == kFaultStep && !past_) meet("its step counts");
        return last;
      } catch (const hora::Error& error) {
        if (error.code() != hora::Code::generation_ended) throw;
        change();
      }
    }
  }

  /// Goes on with other ranks.
  void change() {
    const bool meant = is("changing") && part_.victim() && !std::exchange(past_, true);
    if (!meant) {
      hora_->next_generation();
      return;
    }
    const OnceItWaits then([this] { befall(stage_, part_, "the ranks change"); });
    hora_->next_generation();
  }

  /// Gives the state to the ranks that have just joined, or gets it.
  void share() {
    if (hora_->state_root() < 0 || state_.shared_in == hora_->generation()) return;
    std::vector<hora::Handle> handles;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      handles.push_back(submit_state(fmt::format("part {}", i), parts_[i]));
    const auto come = [&] {
      return std::count_if(handles.begin(), handles.end(), [](const auto& one) { return one.poll(); });
    };
    if (is("sharing")) {
      strike([&] { return come() == kParts; },
             [&] {
               // They may come all at once for their source, but not for the one that gets them.
               const auto count = past_ ? std::count_if(parts_.begin(), parts_.end(), hora::filled) : come();
               return count > 0 && count < kParts ? fmt::format("{} of {} parts are there", count, kParts)
                                                  : "";
             });
    }
    for (const auto& handle : handles) handle.wait();
    const Tensor numbers(*hora_, part_, 2);
    numbers.input[0] = static_cast<float>(state_.model);
    numbers.input[1] = static_cast<float>(state_.made);
    submit_state("numbers", numbers).wait();
    const std::uint64_t generation = hora_->generation();
    state_ = {numbers.output[0], static_cast<std::uint64_t>(numbers.output[1]), generation};
  }
  hora::Handle submit_state(const std::string& name, const Tensor& tensor) {
    hora::Entry entry = hora::broadcast_of(name, tensor);
    entry.root = hora_->state_root();
    return hora_->submit(std::move(entry));
  }

  /// Reduces a gradient, and whether the training is to end, which this returns.
  bool compute() {
    std::this_thread::sleep_for(kCompute);
    lose_one();
    if (is("idle") && is_due()) meet("it computes");
    const bool keeps_waiting = is("negotiating") && is_due();
    if (keeps_waiting && part_.victim()) meet("the others wait for its gradient");
    std::fill_n(large_->output, large_->elements, 0.0F);
    const auto gradient = hora_->submit(hora::entry_of("gradient", *large_));
    if (keeps_waiting && !part_.victim()) {
      past_ = true;
      stage_.say("there");
    }
    if (is("inside")) strike_inside(gradient);
    gradient.wait();
    const Tensor end(*hora_, part_, 1);
    *end.input = stage_.heard("end") ? 1.0F : 0.0F;
    hora_->submit(hora::entry_of("end", end)).wait();
    return *end.output == static_cast<float>(hora_->size());
  }

  /// Where the fault is to meet a change of the ranks, another rank is lost before.
  void lose_one() {
    if ((!is("changing") && !is("sharing")) || !is_late() || !is_due()) return;
    stage_.say("lost");
    ::kill(::getpid(), SIGKILL);
  }

  void strike_inside(const hora::Handle& gradient) {
    if (state_.made + 1 == kFaultStep && !std::exchange(past_, true)) {
      stage_.say("there");
      if (part_.victim()) stage_.await("go");
    }
    if (!past_) return;
    strike([&] { return gradient.poll(); },
           [&] {
             const int count = hora::filled(*large_);
             return count > 0 && count < kSamples
                        ? fmt::format("{} of {} parts of the output are there", count, kSamples)
                        : "";
           });
  }

  /// A victim's: watches what is under way, and lets the fault happen in the midst of it.
  template <class Through, class Between>
  void strike(const Through& through, const Between& between) {
    if (!part_.victim()) return;
    while (!through()) {
      std::string where = between();
      if (where.empty() && stage_.heard("now") && !through()) where = "the other victim has had its fault";
      if (!where.empty()) return befall(stage_, part_, where);
      std::this_thread::yield();
    }
  }

  bool commit() {
    if (is("voting") && is_due()) {
      if (part_.victim()) {
        meet("the others have voted");
      } else {
        const OnceItWaits then(meeting(""));
        return hora_->commit();
      }
    }
    if (is("voted") && is_due()) {
      if (is_late()) {
        meet("");
      } else {
        const OnceItWaits then(meeting("it has voted"));
        return hora_->commit();
      }
    }
    return hora_->commit();
  }

  void leave() {
    if (!is("leaving") || past_) return hora_->shutdown();
    if (part_.victim()) {
      meet("the others are leaving");
      return;
    }
    const OnceItWaits then(meeting(""));
    hora_->shutdown();
    stage_.say("told", {{"what", "shutdown has returned"}});
  }

  Stage& stage_;
  const Part& part_;
  std::optional<hora::Runtime> hora_;
  std::optional<Tensor> large_;
  std::vector<Tensor> parts_;
  State state_;
  bool past_;  // this rank has come to the phase, or never does
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return 2;
  Part part = hora::part_of(arguments);
  part.rank = std::stoi(hora::variable("HORA_MEMBER_ID")) - 1;
  return hora::play(arguments, part, [&](Stage& stage) { Play(stage, part).run(); });
}
