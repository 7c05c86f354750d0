// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/standard_input.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kLookForForeground{1};  // nobody tells a process that it is there again

}  // namespace

StandardInput::StandardInput(std::optional<int> reader)
    : reader_(reader), shown_(::isatty(STDOUT_FILENO) == 1) {
  if (reader && ::isatty(STDIN_FILENO) == 1) terminal_.emplace(STDIN_FILENO);
}

std::vector<int> StandardInput::signals() {
  if (::isatty(STDIN_FILENO) == 0) return {};
  return {SIGTSTP, SIGWINCH};
}

bool StandardInput::reads(int rank) const { return reader_ && (*reader_ == kEveryRank || *reader_ == rank); }

bool StandardInput::has_own_terminal() const { return terminal_ && shown_ && *reader_ != kEveryRank; }

void StandardInput::go_into(HostPlan& plan, bool here) {
  const bool any = std::any_of(plan.placements.begin(), plan.placements.end(),
                               [&](const RankPlacement& placement) { return reads(placement.rank); });
  if (!any) return;
  plan.reader = *reader_;
  inherited_ = here && !terminal_ && *reader_ != kEveryRank;
  plan.input = inherited_           ? InputKind::inherited
               : has_own_terminal() ? InputKind::terminal
                                    : InputKind::piped;
  if (has_own_terminal()) plan.window = size_of(STDIN_FILENO);
}

void StandardInput::add(HostRanks& ranks, const std::vector<int>& numbers) {
  if (inherited_) return;
  const std::size_t before = reading_.size();
  for (const int rank : numbers) {
    if (reads(rank)) reading_.insert(rank);
  }
  if (reading_.size() > before) hosts_.push_back(&ranks);
}

void StandardInput::ended(int rank) {
  if (reading_.erase(rank) > 0 && reading_.empty()) end();
}

void StandardInput::lost(const HostRanks* ranks, const std::vector<int>& numbers) {
  std::erase(hosts_, ranks);
  for (const int rank : numbers) ended(rank);
}

void StandardInput::end() {
  hosts_.clear();
  next_ = TimePoint::max();
  if (terminal_) terminal_->give_back();
}

std::size_t StandardInput::room() const {
  if (hosts_.empty() || !in_foreground_) return 0;
  const auto least = std::min_element(hosts_.begin(), hosts_.end(), [](const auto* one, const auto* other) {
    return one->room() < other->room();
  });
  return (*least)->room();
}

void StandardInput::watch(std::vector<pollfd>& events) const {
  if (room() > 0) events.push_back({STDIN_FILENO, POLLIN, 0});
}

void StandardInput::turn() {
  if (hosts_.empty()) return;
  if (terminal_) {
    in_foreground_ = terminal_->in_foreground();
    next_ = in_foreground_ ? TimePoint::max() : Clock::now() + kLookForForeground;
    if (in_foreground_ && has_own_terminal()) terminal_->take();
  }
  std::array<char, 16 * 1024> buffer{};
  const std::size_t most = std::min(buffer.size(), room());
  if (most == 0 || !await_events(STDIN_FILENO, POLLIN, TimePoint::min())) return;
  const auto got = ::read(STDIN_FILENO, buffer.data(), most);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got < 0 && terminal_ && !terminal_->in_foreground()) return;
  const std::string_view bytes(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  for (auto* host : hosts_) host->feed(bytes);
  if (bytes.empty()) end();
}

void StandardInput::resized() {
  if (!has_own_terminal()) return;
  for (auto* host : hosts_) host->resize(size_of(STDIN_FILENO));
}

void StandardInput::stop() {
  if (terminal_) terminal_->give_back();
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::kill(::getpid(), SIGTSTP);  // unlike STOP this does nothing where no shell could let the process go on
  ::sigprocmask(SIG_UNBLOCK, &stop, nullptr);
  ::sigprocmask(SIG_BLOCK, &stop, nullptr);
}

std::string StandardInput::advice(int rank, std::string_view error) const {
  const bool wanted_more = error.find("EOFError: EOF when reading a line") != std::string_view::npos ||
                           error.find("BdbQuit") != std::string_view::npos;
  if (!wanted_more) return {};
  if (!reads(rank))
    return fmt::format(
        "rank {} has no standard input: with --stdin {} it is the one that reads what you type", rank, rank);
  if (!terminal_)
    return fmt::format(
        "rank {} has read all of hrun's standard input, which is no terminal: started at a terminal, hrun "
        "gives the rank one",
        rank);
  return {};
}

}  // namespace hora::hrun
