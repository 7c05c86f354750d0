// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/discovery.h"

#include "runner/launch/environment.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kBetweenRuns{1};
constexpr std::chrono::seconds kMostTimeOfRun{30};
constexpr std::chrono::milliseconds kLookForExit{20};
constexpr std::size_t kMostOutput = 1 << 20;
constexpr std::size_t kMostQuoted = 500;

/// Whether there was something.
bool read_some(PipeSource& from, std::string& to) {
  std::array<char, 16 * 1024> buffer{};
  const std::size_t count = from.ended() ? 0 : from.read(buffer);
  to.append(buffer.data(), count);
  return count > 0;
}

}  // namespace

Discovery::~Discovery() {
  if (run_ && !run_->ending) ::kill(-run_->pid, SIGKILL);
}

void Discovery::watch(std::vector<pollfd>& events) const {
  if (!run_) return;
  for (const auto* source : {&run_->output, &run_->errors}) {
    if (!source->ended()) events.push_back({source->fd(), POLLIN, 0});
  }
}

TimePoint Discovery::next() const {
  if (!run_) return next_run_;
  return run_->ending ? TimePoint::min() : run_->deadline;
}

void Discovery::child_changed(int pid, int wait_status) {
  if (!run_ || run_->pid != pid || !(WIFEXITED(wait_status) || WIFSIGNALED(wait_status))) return;
  run_->ending = describe_ending(wait_status);
  for (auto* source : {&run_->output, &run_->errors}) source->expect_no_more();
}

std::optional<DiscoveryRun> Discovery::turn(TimePoint now) {
  if (!run_) {
    if (now < next_run_) return std::nullopt;
    try {
      begin(now);
    } catch (const Error& error) {
      next_run_ = now + kBetweenRuns;
      return DiscoveryRun{{}, fmt::format("the host discovery script cannot be started: {}", error.what())};
    }
  }
  Run& run = *run_;
  while (read_some(run.errors, run.words) || read_some(run.output, run.text)) {
    run.too_long = run.too_long || std::max(run.text.size(), run.words.size()) > kMostOutput;
    if (!run.too_long) continue;
    run.text.clear();  // it may go on until it is killed
    run.words.clear();
    break;
  }
  run.too_slow = run.too_slow || (!run.ending && now >= run.deadline);
  if (!run.ending && (run.too_slow || run.too_long)) {
    ::kill(-run.pid, SIGKILL);
    run.deadline = TimePoint::max();
  }
  if (!run.ending) return std::nullopt;
  DiscoveryRun result = this->result(run);
  ::kill(-run.pid, SIGKILL);  // what it has left behind
  run_.reset();
  next_run_ = now + kBetweenRuns;
  return result;
}

void Discovery::begin(TimePoint now) {
  ProcessPlan plan;
  plan.command = {"/bin/sh", "-c", plan_.script};
  plan.environment = own_environment();
  Process process = start(plan);
  run_.emplace(Run{process.pid, PipeSource(std::move(process.output)), PipeSource(std::move(process.errors)),
                   now + kMostTimeOfRun});
}

DiscoveryRun Discovery::result(const Run& run) const {
  const std::string name = fmt::format("the host discovery script '{}'", plan_.script);
  if (run.too_slow) return {{}, fmt::format("{} has not ended within {} s", name, kMostTimeOfRun.count())};
  if (run.too_long) return {{}, fmt::format("{} has printed more than {} bytes", name, kMostOutput)};
  if (run.ending->exit_code != 0) {
    const std::string words = printable(run.words.substr(0, std::min(run.words.find('\n'), kMostQuoted)));
    return {{}, fmt::format("{} {}{}{}", name, run.ending->how, words.empty() ? "" : ": ", words)};
  }
  try {
    return {parse_host_lines(run.text, plan_.slots), ""};
  } catch (const Error& error) {
    return {{}, fmt::format("{} has printed no list of hosts: {}", name, error.what())};
  }
}

std::vector<HostSlots> discover_hosts(const DiscoveryPlan& plan, int least, std::chrono::milliseconds timeout,
                                      const std::function<void(const std::string&)>& say) {
  const TimePoint deadline = Clock::now() + timeout;
  ::signal(SIGCHLD, SIG_DFL);  // ignored, as some parents leave it, no end of a child would be told
  Discovery discovery(plan, Clock::now());
  std::string said;
  for (bool first = true;;) {
    std::vector<pollfd> events;
    discovery.watch(events);
    // Nobody waits for children yet, so no signal tells the end of the script.
    const TimePoint next = std::min({discovery.next(), Clock::now() + kLookForExit, deadline});
    ::poll(events.data(), events.size(), milliseconds_until(next));
    int wait_status = 0;
    if (const int pid = ::waitpid(-1, &wait_status, WNOHANG); pid > 0)
      discovery.child_changed(pid, wait_status);
    const auto run = discovery.turn(Clock::now());
    std::string why = said;
    if (run) {
      if (run->trouble.empty() && total_slots(run->hosts) >= least) return run->hosts;
      if (first && !run->trouble.empty()) throw Error(Code::invalid_argument, run->trouble);
      first = false;
      why = run->trouble.empty() ? fmt::format("{} slots on {} hosts, and the job needs {} to begin",
                                               total_slots(run->hosts), run->hosts.size(), least)
                                 : run->trouble;
      if (why != said) say(why);
      said = why;
    }
    if (Clock::now() >= deadline) {
      throw Error(Code::timeout,
                  fmt::format("there are too few hosts after {} s (--elastic-timeout): {}",
                              std::chrono::duration<double>(timeout).count(),
                              said.empty() ? "the host discovery script has not ended" : said));
    }
  }
}

}  // namespace hora::hrun
