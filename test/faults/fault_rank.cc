// SPDX-License-Identifier: Apache-2.0
// A rank for the tests of faults: comes to a phase of its job, in which its arguments have a fault befall
// some ranks.
//   fault_rank STAGE PHASE PLANE FAULT VICTIMS BYTES
// STAGE is the local socket of the test, VICTIMS are ranks with commas between them, BYTES is how large a
// tensor is that takes its time. It tells the test: "born", "there" (in the phase), "fault" (now), "told"
// (this rank knows), "out" (with the descriptors that are left). Cues: "go"; "now", when the other
// victim has had its fault; "done", when the test has done what is its to do.
#include <hora/hora.h>

#include "test/faults/fault.h"
#include "test/faults/tensor.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using hora::befall;
using hora::kLookAgain;
using hora::kSamples;
using hora::Part;
using hora::Stage;
using hora::Tensor;
using TimePoint = std::chrono::steady_clock::time_point;

constexpr int kParameters = 16;
constexpr int kSkipped = 7;       // of them
constexpr std::size_t kMore = 1;  // elements, in another shape

/// Whether this process has a connection that rank 0's listener has accepted: it has come to the rendezvous.
bool has_met() {
  const std::string coordinator = hora::variable("HORA_COORDINATOR");
  const auto port = static_cast<in_port_t>(std::stoi(coordinator.substr(coordinator.rfind(':') + 1)));
  for (const auto& [number, target] : hora::descriptors()) {
    sockaddr_in6 address{};  // an IPv4 one has its port at the same place
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::getpeername(number, any, &length) != 0) continue;
    if (ntohs(address.sin6_port) == port) return true;
    length = sizeof address;
    if (::getsockname(number, any, &length) == 0 && ntohs(address.sin6_port) == port) return true;
  }
  return false;
}

// --- the play ---

class Play {
 public:
  Play(Stage& stage, const Part& part) : stage_(stage), part_(part) {}

  /// Throws what this rank is told.
  void run() {
    if (part_.phase == "before") {
      stage_.say("there");
      stage_.await("go");
      if (part_.victim()) befall(stage_, part_, "before init");
    }
    if (part_.phase == "rendezvous" && part_.late()) {
      stage_.say("there");
      stage_.await("go");
    }
    std::thread watcher;
    if (part_.phase == "rendezvous" && !part_.late()) watcher = std::thread([this] { watch_rendezvous(); });
    try {
      hora_.emplace(hora::init());
    } catch (const hora::Error&) {
      if (watcher.joinable()) watcher.join();
      throw;
    }
    if (watcher.joinable()) watcher.join();
    reduce("begun");
    if (part_.phase == "idle") idle();
    if (part_.phase == "negotiating") negotiate();
    if (part_.phase == "inside") move();
    if (part_.phase == "broadcasting") broadcast();
    leave();
  }

 private:
  /// An allreduce of one number; the sum.
  float reduce(const std::string& name, float value = 1.0F) {
    const Tensor tensor(*hora_, part_, 1);
    *tensor.input = value;
    hora_->submit(entry_of(name, tensor)).wait();
    return *tensor.output;
  }

  void watch_rendezvous() {
    while (!has_met()) std::this_thread::sleep_for(kLookAgain);
    stage_.say("there");
    stage_.await("go");
    if (part_.victim()) befall(stage_, part_, "in the rendezvous");
  }

  void idle() {
    stage_.say("there");
    stage_.await("go");
    if (part_.victim()) befall(stage_, part_, "nothing is under way");
    reduce("next");
  }

  void negotiate() {
    const Tensor tensor(*hora_, part_, 1000);
    const bool waits = part_.victim() || (part_.fault == "twice" && part_.late());
    if (waits) {
      stage_.say("there");
      stage_.await("go");
      if (part_.victim() && part_.deviates()) return deviate("gradient", tensor);
      if (part_.victim()) befall(stage_, part_, "the others wait for 'gradient'");
    }
    const auto handle = hora_->submit(entry_of("gradient", tensor));
    if (!waits) stage_.say("there");
    handle.wait();
  }

  /// Does something else than the others, who submit this tensor and then "next".
  void deviate(const std::string& name, const Tensor& tensor) {
    stage_.say("fault", {{"where", fmt::format("the others have submitted '{}'", name)}});
    if (part_.fault == "shape") {
      const Tensor other(*hora_, part_, tensor.elements + kMore);
      hora_->submit(entry_of(name, other)).wait();
    } else if (part_.fault == "twice") {
      submit_twice(entry_of(name, tensor));
    }
    reduce("next");
  }

  /// No caller catches the exception that this throws.
  void submit_twice(const hora::Entry& entry) noexcept {
    hora_->submit(entry);
    hora_->submit(entry);
  }

  // Rounds of large tensors, until the fault has happened in the middle of one. Each ends with an allreduce,
  // by which all learn whether there is another round.

  void move() {
    const Tensor tensor(*hora_, part_, part_.elements);
    start_rounds();
    for (int round = 0;; ++round) {
      std::fill_n(tensor.output, tensor.elements, 0.0F);
      const TimePoint begin = std::chrono::steady_clock::now();
      const std::string name = fmt::format("gradient.{}", round);
      const auto handle = hora_->submit(entry_of(name, tensor));
      const bool another =
          handle_fault(name, [&] { return handle.poll(); }, [&] { return under_way(tensor, begin, round); });
      const bool stop = end_round(fmt::format("next.{}", round), another);
      handle.wait();
      took_ = std::chrono::steady_clock::now() - begin;
      if (stop) return;
    }
  }

  /// The sign that elements are being moved; empty if there is none. GPUs write all elements at a time: they
  /// are taken to be in the midst of it in the middle of the time that the round before took.
  std::string under_way(const Tensor& tensor, TimePoint begin, int round) const {
    if (part_.plane == "nccl") {
      const auto since = std::chrono::steady_clock::now() - begin;
      return round > 0 && 2 * since > took_ ? "half of its time is over" : "";
    }
    const int count = filled(tensor);
    return count > 0 && count < kSamples
               ? fmt::format("{} of {} parts of the output are there", count, kSamples)
               : "";
  }

  void broadcast() {
    std::vector<Tensor> parameters;
    for (int i = 0; i < kParameters; ++i)
      parameters.emplace_back(*hora_, part_, part_.elements / kParameters);
    const Tensor other(*hora_, part_, part_.elements / kParameters + kMore);
    start_rounds();
    if (part_.fault == "twice" && part_.late()) stage_.await("go");
    for (int round = 0;; ++round) {
      const bool deviates = round == 0 && part_.victim() && part_.deviates();
      std::vector<hora::Handle> handles;
      if (deviates) stage_.say("fault", {{"where", "the others broadcast their parameters"}});
      for (int i = 0; i < kParameters; ++i) {
        const std::string name = fmt::format("parameter.{}.{}", round, i);
        const bool special = deviates && i == kSkipped;
        if (special && part_.fault == "skip") continue;
        const Tensor& tensor =
            special && part_.fault == "shape" ? other : parameters[static_cast<std::size_t>(i)];
        if (special && part_.fault == "twice") submit_twice(broadcast_of(name, tensor));
        handles.push_back(hora_->submit(broadcast_of(name, tensor)));
      }
      const auto through = [&] {
        return std::all_of(handles.begin(), handles.end(), [](auto& one) { return one.poll(); });
      };
      const auto between = [&] {
        const auto count =
            std::count_if(handles.begin(), handles.end(), [](auto& one) { return one.poll(); });
        return count > 0 && count < kParameters
                   ? fmt::format("{} of {} parameters are there", count, kParameters)
                   : "";
      };
      const bool another = part_.deviates() || handle_fault("", through, between);
      const bool stop = end_round(fmt::format("next.{}", round), another);
      for (const auto& handle : handles) handle.wait();
      if (stop) return;
    }
  }

  void start_rounds() {
    stage_.say("there");
    if (part_.victim()) stage_.await("go");
  }

  /// A victim's: watches what is under way, and lets the fault happen in the midst of it. False: this was the
  /// last round.
  template <class Through, class Between>
  bool handle_fault(const std::string& name, const Through& through, const Between& between) {
    if (!part_.victim()) return true;
    if (slowed_) return false;
    while (!through()) {
      std::string where = between();
      if (where.empty() && stage_.heard("now") && !through()) where = "the other victim has had its fault";
      if (where.empty()) {
        std::this_thread::yield();
        continue;
      }
      if (part_.deviates()) return deviate_inside(name, where);
      befall(stage_, part_, where);
      slowed_ = part_.fault == "slow";
      return slowed_;  // another round, which is slow as a whole
    }
    return true;
  }

  /// While a tensor is under way: does not submit what ends the round, or another thing, or this tensor once
  /// more.
  bool deviate_inside(const std::string& name, const std::string& where) {
    stage_.say("fault", {{"where", where}});
    deviated_ = true;
    if (part_.fault == "twice")
      [&]() noexcept {
        const Tensor tensor(*hora_, part_, 1);
        hora_->submit(entry_of(name, tensor));
      }();
    return true;
  }

  /// Whether the rounds are over.
  bool end_round(const std::string& name, bool another) {
    if (deviated_ && part_.fault == "skip") {
      reduce("following");
      return true;
    }
    if (deviated_ && part_.fault == "shape") {
      const Tensor tensor(*hora_, part_, 1 + kMore);
      hora_->submit(entry_of(name, tensor)).wait();
      return true;
    }
    return reduce(name, another ? 0.0F : 1.0F) > 0.0F;
  }

  void leave() {
    if (part_.phase != "leaving") return hora_->shutdown();
    const Tensor tensor(*hora_, part_, 1000);
    if (part_.victim()) {
      stage_.say("there");
      stage_.await("go");
      befall(stage_, part_, "the others are leaving");
    } else if (part_.fault == "skip") {
      const auto handle = hora_->submit(entry_of("gradient", tensor));
      stage_.say("there");
      handle.wait();
    }
    std::atomic<bool> leaving = false;
    std::thread watcher([&] {
      if (part_.victim() || part_.fault == "skip") return;
      while (!leaving || !hora::main_thread_sleeps()) std::this_thread::sleep_for(kLookAgain);
      stage_.say("there");
    });
    leaving = true;
    hora_->shutdown();
    stage_.say("told", {{"what", "shutdown has returned"}});
    watcher.join();
  }

  Stage& stage_;
  const Part& part_;
  std::optional<hora::Runtime> hora_;
  std::chrono::steady_clock::duration took_{};
  bool deviated_ = false;
  bool slowed_ = false;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) return 2;
  const Part part = hora::part_of(arguments);
  return hora::play(arguments, part, [&](Stage& stage) { Play(stage, part).run(); });
}
