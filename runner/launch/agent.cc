// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/agent.h"

#include "runner/launch/agent_channel.h"
#include "runner/launch/environment.h"
#include "runner/launch/local_ranks.h"
#include "runner/launch/signals.h"

#include <hora/hora.h>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kTimeToDrain{1};

/// An output of a rank on its way to hrun: that of its process, and before it the rest of former ones.
struct RankStream {
  SourceQueue source;
  std::size_t window = kWindow;  ///< how much more hrun takes
};

std::string own_path() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).string();
}

/// One agent. Everything happens in one thread, which waits in poll() and nowhere else.
class Agent {
 public:
  Agent(int in, int out) : channel_(in, out, Clock::now()) {}

  int run() {
    channel_.send_line("");  // whatever a login shell printed before has ended then
    channel_.send_line(fmt::format("{} {} {}", kGreeting, version(), own_path()));
    channel_.flush();
    while (!done_) turn();
    send_what_is_queued();
    return exit_code_;
  }

 private:
  void turn() {
    std::vector<pollfd> events{{signals_.fd(), POLLIN, 0}};
    watch(events);
    const TimePoint next = std::min(channel_.heard() + kSilence, ranks_ ? ranks_->next() : TimePoint::max());
    ::poll(events.data(), events.size(), milliseconds_until(next));
    const TimePoint now = Clock::now();
    signals_.take(
        [&](const Signals::Child& child) {
          if (ranks_) ranks_->child_changed(child.pid, child.wait_status, now);
        },
        [&](int signal) { told_to_end(signal); });
    channel_.read(now);
    while (!done_) {
      const auto message = channel_.next();
      if (!message) break;
      take(*message, now);
    }
    if (ranks_) pass_on(now);
    channel_.flush();
    if (channel_.closed() || now - channel_.heard() >= kSilence) give_up();
  }

  void watch(std::vector<pollfd>& events) const {
    channel_.watch(events);
    for (const auto& stream : streams_) {
      if (may_read(stream)) events.push_back({stream.source->fd(), POLLIN, 0});
    }
    if (ranks_) ranks_->watch(events);
  }

  [[nodiscard]] bool may_read(const RankStream& stream) const {
    return !stream.source->ended() && stream.window > 0 && !channel_.full();
  }

  // --- hrun's words ---

  void take(const AgentMessage& message, TimePoint now) {
    const int count = ranks_ ? static_cast<int>(streams_.size() / 2) : 0;
    switch (message.word) {
      case Word::plan: make_ready(decode_plan(message.body)); return;
      case Word::start: start(decode_rendezvous(message.body)); return;
      case Word::start_one: start_one(decode_start_one(message.body, count)); return;
      case Word::interrupt:
        if (ranks_) ranks_->interrupt();
        return;
      case Word::terminate:
        if (ranks_) ranks_->terminate();
        return;
      case Word::kill:
        if (ranks_) ranks_->kill();
        return;
      case Word::kill_one: {
        const int index = decode_index(message.body, count);
        ranks_->kill_one(index);
        return;
      }
      case Word::leader_message: {
        const ToMember to = decode_to_member(message.body, count);
        ranks_->send(to.index, to.message);
        return;
      }
      case Word::news:
        if (ranks_) ranks_->tell(decode_rank_end(message.body));
        return;
      case Word::question:
        if (ranks_) ranks_->ask(decode_question(message.body));
        return;
      case Word::taken: {
        const Taken taken = decode_taken(message.body, count);
        std::size_t& window = streams_.at(static_cast<std::size_t>(taken.stream)).window;
        window = std::min(kWindow, window + taken.count);
        return;
      }
      case Word::input:
        if (ranks_) take_input(text_of(message.body));
        return;
      case Word::window:
        if (ranks_) ranks_->resize(decode_window_size(message.body));
        return;
      case Word::ping:
        channel_.send(Word::pong, encode(Pong{decode_number(message.body), microseconds(now)}));
        return;
      default: throw Error(Code::internal, fmt::format("hrun never says {}", static_cast<int>(message.word)));
    }
  }

  void make_ready(HostPlan plan) {
    try {
      enter(plan.directory);
      plan.command.front() = find_program(plan.command.front());
      if (!plan.horovod_folder.empty() && !std::filesystem::is_directory(plan.horovod_folder)) {
        throw Error(Code::invalid_argument,
                    fmt::format("--horovod: there is no folder {}; install the package "
                                "hora there as it is here",
                                plan.horovod_folder));
      }
      plan.environment = with_session(plan.environment, own_environment());
      ranks_ = make_local_ranks(plan);
      count_ = static_cast<int>(plan.placements.size());
      channel_.send(Word::ready, encode(ranks_->ready()));
    } catch (const Error& error) {
      refuse(error.what());
    }
  }

  static void enter(const std::string& directory) {
    if (directory.empty() || ::chdir(directory.c_str()) == 0) return;
    throw Error(Code::invalid_argument, fmt::format("the working directory {} cannot be entered: {}",
                                                    directory, std::strerror(errno)));
  }

  void start(const RendezvousPoint& rendezvous) {
    if (!ranks_ || std::exchange(started_, true))
      throw Error(Code::internal, "a start without a plan, or a second one");
    try {
      ranks_->start(rendezvous);
    } catch (const Error& error) {
      return refuse(error.what());
    }
    for (int i = 0; i < count_; ++i) add_streams(i);
    starts_ = streams_.size() / 2;
  }

  void start_one(const StartOne& start) {
    if (!started_) throw Error(Code::internal, "a process is to be started before the ranks");
    over_ = false;
    ++starts_;
    ranks_->start_one(start.index, start.placement, start.member);
    const std::size_t number = 2 * static_cast<std::size_t>(start.index);
    if (number == streams_.size()) return add_streams(start.index);
    streams_[number].source.add(ranks_->output(start.index));
    streams_[number + 1].source.add(ranks_->errors(start.index));
  }

  void add_streams(int index) {
    streams_.push_back({.source = SourceQueue(ranks_->output(index))});
    streams_.push_back({.source = SourceQueue(ranks_->errors(index))});
  }

  void take_input(std::string_view bytes) {
    if (bytes.size() > input_window_) throw Error(Code::internal, "more input than there is room for");
    input_window_ -= bytes.size();
    ranks_->feed(bytes);
  }

  void refuse(const std::string& why) {
    channel_.send(Word::refused, bytes_of(why));
    if (ranks_) ranks_->kill();
    done_ = true;
    exit_code_ = 1;
  }

  // --- the ranks' words ---

  void pass_on(TimePoint now) {
    const auto events = ranks_->turn(now);
    if (!events.empty()) pass_outputs();  // hrun knows what a rank last wrote when it hears of its end
    for (const auto& event : events) tell(event);
    if (ranks_->state() == HostRanks::State::over && !over_) {
      over_ = true;
      channel_.send(Word::over, encode_number(starts_));
      for (auto& stream : streams_) stream.source.expect_no_more();
    }
    pass_outputs();
    const std::size_t room = ranks_->room();
    if (room <= input_window_) return;
    channel_.send(Word::input_taken, encode_number(room - input_window_));
    input_window_ = room;
  }

  void tell(const RankEvent& event) {
    switch (event.kind) {
      case RankEvent::Kind::started:
        channel_.send(Word::started, encode(Started{event.index, event.pid}));
        return;
      case RankEvent::Kind::stopped:
      case RankEvent::Kind::resumed:
        channel_.send(Word::stopped,
                      encode(Stopped{event.index, event.ending.signal, microseconds(event.when)}));
        return;
      case RankEvent::Kind::answered:
        channel_.send(Word::answer, encode(RankReply{event.index, event.answer}));
        return;
      case RankEvent::Kind::told:
        channel_.send(Word::member_message, encode(FromMember{event.index, event.message}));
        return;
      case RankEvent::Kind::ended:
        channel_.send(Word::ended, encode(Ended{event.index, event.ending.exit_code, event.ending.how,
                                                event.ending.signal, microseconds(event.when)}));
        return;
      case RankEvent::Kind::host_lost: return;  // of others alone
    }
  }

  void pass_outputs() {
    for (std::size_t i = 0; i < streams_.size(); ++i) pass_output(static_cast<int>(i));
  }

  void pass_output(int number) {
    RankStream& stream = streams_[static_cast<std::size_t>(number)];
    std::array<char, 16 * 1024> buffer{};
    if (may_read(stream)) {
      const std::size_t count =
          stream.source->read(std::span(buffer).first(std::min(buffer.size(), stream.window)));
      stream.window -= count;
      if (count > 0) channel_.send(Word::output, encode(OutputPiece{number, {buffer.data(), count}}));
    }
    while (stream.source->ended() && !stream.source.done()) {
      channel_.send(Word::output, encode(OutputPiece{number, {}}));
      stream.source.move_on();
    }
  }

  // --- ending ---

  void told_to_end(int signal) {
    refuse(fmt::format("the agent of this host was told to end ({})", ::strsignal(signal)));
  }

  void send_what_is_queued() {
    const TimePoint until = Clock::now() + kTimeToDrain;
    while (channel_.has_queued() && Clock::now() < until) {
      std::vector<pollfd> events;
      channel_.watch(events);
      ::poll(events.data(), events.size(), milliseconds_until(until));
      channel_.flush();
    }
  }

  /// hrun has ended, or is out of reach. Once all is over and told that is as it should be.
  void give_up() {
    if (ranks_) ranks_->kill();
    done_ = true;
    exit_code_ = over_ ? 0 : 1;
  }

  AgentChannel channel_;
  Signals signals_;
  std::size_t input_window_ = kWindow;  // how much hrun may send of what ranks here read
  std::unique_ptr<HostRanks> ranks_;
  int count_ = 0;
  std::vector<RankStream> streams_;
  std::uint64_t starts_ = 0;  // of processes of ranks
  bool started_ = false;
  bool over_ = false;
  bool done_ = false;
  int exit_code_ = 0;
};

}  // namespace

int run_agent(int in, int out) { return Agent(in, out).run(); }

}  // namespace hora::hrun
