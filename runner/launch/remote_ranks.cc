// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/remote_ranks.h"

#include "runner/launch/agent_channel.h"
#include "runner/launch/environment.h"

#include <hora/hora.h>

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <deque>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

namespace hora::hrun {
namespace {

constexpr int kLost = 255;  // the exit code of a job whose host is lost, as of ssh itself
constexpr int kNotStarted = 1;
constexpr std::size_t kMostWords = 4096;
constexpr std::chrono::seconds kLastBreath{1};  // for ssh to end after its connection

/// The agent's clock by ours, from the fastest answer so far.
class ClockOffset {
 public:
  void add(const Pong& pong, std::uint64_t now) {
    const std::uint64_t trip = now - pong.echo;
    if (trip >= best_) return;
    best_ = trip;
    offset_ = static_cast<std::int64_t>(pong.own - pong.echo - trip / 2);
  }
  /// Never later than now: what has been told has happened.
  [[nodiscard]] TimePoint ours(std::uint64_t theirs, TimePoint now) const {
    const std::chrono::microseconds since(static_cast<std::int64_t>(theirs) - offset_);
    return std::min(now, TimePoint(std::chrono::duration_cast<Clock::duration>(since)));
  }

 private:
  std::uint64_t best_ = std::numeric_limits<std::uint64_t>::max();
  std::int64_t offset_ = 0;
};

/// The last lines of a program on its stderr, fit to be quoted: without what does things to a terminal.
class StderrTail {
 public:
  explicit StderrTail(Descriptor pipe) : source_(std::move(pipe)) {}

  void watch(std::vector<pollfd>& events) const {
    if (!source_.ended()) events.push_back({source_.fd(), POLLIN, 0});
  }
  void read() {
    std::array<char, 4096> buffer{};
    while (!source_.ended()) {
      const std::size_t count = source_.read(buffer);
      if (count == 0) return;
      text_.append(buffer.data(), count);
      if (text_.size() > kMostWords) text_.erase(0, text_.size() - kMostWords);
    }
  }
  /// The text up to here is of no use.
  void forget() {
    read();
    text_.clear();
  }
  /// Lines that say something, in one.
  [[nodiscard]] std::string quoted() const {
    std::istringstream lines(text_);
    std::string out;
    for (std::string line; std::getline(lines, line);) {
      std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
      while (!line.empty() && line.back() == ' ') line.pop_back();
      if (!line.empty()) out += (out.empty() ? "" : "; ") + line;
    }
    return out;
  }

 private:
  PipeSource source_;
  std::string text_;
};

/// The program that leads to the host, and both ends of its pipes.
struct Connection {
  explicit Connection(const std::vector<std::string>& command, TimePoint now)
      : input(make_pipe()),
        process(begin(command, input.read.fd())),
        channel(process.output.fd(), input.write.fd(), now),
        stderr_tail(std::move(process.errors)) {
    input.read = Descriptor();
  }

  static Process begin(const std::vector<std::string>& command, int input) {
    ProcessPlan plan;
    plan.command = command;
    plan.environment = own_environment();
    plan.input = input;
    return hrun::start(plan);
  }

  Pipe input;
  Process process;
  AgentChannel channel;
  StderrTail stderr_tail;
};

class RemoteRanks final : public HostRanks {
 public:
  RemoteRanks(Road road, HostPlan plan, std::chrono::milliseconds timeout, TimePoint now)
      : road_(std::move(road)),
        plan_(std::move(plan)),
        timeout_(timeout),
        deadline_(now + timeout),
        connection_(road_.command, now),
        channel_(connection_.channel),
        boxes_(plan_.placements.size() * 2) {}

  ~RemoteRanks() override {
    if (exit_) return;
    if (parted_at_) await_agent();
    ::kill(-connection_.process.pid, SIGKILL);
    ::waitpid(connection_.process.pid, nullptr, 0);
  }
  RemoteRanks(const RemoteRanks&) = delete;
  RemoteRanks& operator=(const RemoteRanks&) = delete;

  [[nodiscard]] State state() const override { return state_; }
  [[nodiscard]] const std::string& trouble() const override { return trouble_; }
  [[nodiscard]] const Ready& ready() const override { return ready_; }

  void start(const RendezvousPoint& rendezvous) override {
    state_ = State::running;
    tell(Word::start, encode(rendezvous));
  }
  void interrupt() override { tell(Word::interrupt); }
  void terminate() override { tell(Word::terminate); }
  void kill() override { tell(Word::kill); }
  void tell(const RankEnd& end) override { tell(Word::news, encode(end)); }
  void ask(const Question& question) override {
    if (state_ == State::running) tell(Word::question, encode(question));
  }
  [[nodiscard]] std::size_t room() const override {
    return gone() || state_ != State::running || channel_.full() ? 0 : input_window_;
  }
  void feed(std::string_view bytes) override {
    input_window_ -= bytes.size();
    tell(Word::input, bytes_of(bytes));
  }
  void resize(WindowSize size) override { tell(Word::window, encode(size)); }
  void part() override {
    if (gone()) return;
    parted_at_ = Clock::now();
    channel_.hang_up();
    connection_.input.write = Descriptor();  // by which the agent knows
  }

  void watch(std::vector<pollfd>& events) const override {
    if (gone()) return;
    channel_.watch(events);
    connection_.stderr_tail.watch(events);
  }

  [[nodiscard]] TimePoint next() const override {
    if (gone()) return TimePoint::max();
    if (closed_at_) return *closed_at_ + kLastBreath;
    if (!greeted_) return deadline_;
    const TimePoint at = std::min(next_ping_, channel_.heard() + kSilence);
    return state_ == State::making_ready ? std::min(at, deadline_) : at;
  }

  void child_changed(int pid, int wait_status, TimePoint /*now*/) override {
    const bool ended = WIFEXITED(wait_status) || WIFSIGNALED(wait_status);
    if (ended && pid == connection_.process.pid) exit_ = describe_ending(wait_status).exit_code;
  }

  std::vector<RankEvent> turn(TimePoint now) override {
    if (!gone()) {
      connection_.stderr_tail.read();
      channel_.read(now);
      try {
        take_messages(now);
        if (greeted_) speak(now);
        look_at_the_end(now);
      } catch (const Error& error) {
        give_up(fmt::format("it speaks another language: {}", error.what()), kLost, now);
      }
    }
    return std::exchange(events_, {});
  }

  [[nodiscard]] OutputSource& output(int index) override { return boxes_.at(2 * std::size_t(index)); }
  [[nodiscard]] OutputSource& errors(int index) override { return boxes_.at(2 * std::size_t(index) + 1); }

 private:
  [[nodiscard]] bool gone() const { return given_up_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(plan_.placements.size()); }

  /// Sends it to the agent at once, unless the host has been given up.
  void tell(Word word, std::span<const std::byte> body = {}) {
    if (gone()) return;
    channel_.send(word, body);
    channel_.flush();
  }

  // --- hearing ---

  void take_messages(TimePoint now) {
    while (!greeted_) {
      const auto line = channel_.next_line();
      if (!line) return;
      if (line->starts_with(kGreeting)) greet(*line);
      if (gone()) return;
    }
    while (!gone()) {
      const auto message = channel_.next();
      if (!message) return;
      take(*message, now);
    }
  }

  /// The agent's version must be ours: before that is known it is told nothing.
  void greet(const std::string& line) {
    std::istringstream words(line);
    std::string greeting;
    std::string its_version;
    std::string path;
    words >> greeting >> its_version >> path;
    if (its_version != version()) {
      give_up(fmt::format("its hrun ({}) is of version {}, and this one of {}: install the same on all hosts",
                          path, its_version, version()),
              kLost, Clock::now());
      return;
    }
    greeted_ = true;
    connection_.stderr_tail.forget();  // of login: banners, new host keys
    next_ping_ = TimePoint::min();
    ping(Clock::now());
    tell(Word::plan, encode(plan_));
  }

  void take(const AgentMessage& message, TimePoint now) {
    switch (message.word) {
      case Word::ready:
        ready_ = decode_ready(message.body);
        if (state_ == State::making_ready) state_ = State::ready;
        return;
      case Word::refused:
        give_up(std::string(text_of(message.body)), any_started_ ? kLost : kNotStarted, now);
        return;
      case Word::started: take_started(decode_started(message.body, ranks())); return;
      case Word::ended: take_ended(decode_ended(message.body, ranks()), now); return;
      case Word::stopped: take_stopped(decode_stopped(message.body, ranks()), now); return;
      case Word::answer: take_answer(decode_rank_reply(message.body, ranks())); return;
      case Word::over: state_ = State::over; return;
      case Word::output: take_output(decode_piece(message.body, ranks())); return;
      case Word::input_taken: input_window_ += decode_window(message.body, input_window_); return;
      case Word::pong: clock_.add(decode_pong(message.body), microseconds(now)); return;
      default:
        throw Error(Code::internal, fmt::format("an agent never says {}", static_cast<int>(message.word)));
    }
  }

  void take_started(const Started& started) {
    any_started_ = true;
    RankEvent event;
    event.index = started.index;
    event.pid = started.pid;
    events_.push_back(event);
  }

  void take_answer(RankReply answer) {
    RankEvent event;
    event.kind = RankEvent::Kind::answered;
    event.index = answer.index;
    event.answer = std::move(answer.answer);
    events_.push_back(std::move(event));
  }

  void take_ended(const Ended& ended, TimePoint now) {
    RankEvent event;
    event.kind = RankEvent::Kind::ended;
    event.index = ended.index;
    event.ending = {ended.exit_code, ended.how, ended.signal};
    event.when = clock_.ours(ended.when, now);
    events_.push_back(event);
  }

  void take_stopped(const Stopped& stopped, TimePoint now) {
    RankEvent event;
    event.kind = stopped.signal == 0 ? RankEvent::Kind::resumed : RankEvent::Kind::stopped;
    event.index = stopped.index;
    if (stopped.signal != 0) event.ending = describe_stop(stopped.signal);
    event.when = clock_.ours(stopped.when, now);
    events_.push_back(event);
  }

  void take_output(const OutputPiece& piece) {
    Inbox& box = boxes_.at(static_cast<std::size_t>(piece.stream));
    if (piece.bytes.empty()) return box.end();
    if (box.closed() || box.size() + piece.bytes.size() > kWindow)
      throw Error(Code::internal, "more output than was asked for");
    box.put(piece.bytes);
  }

  // --- speaking ---

  void speak(TimePoint now) {
    ping(now);
    for (std::size_t i = 0; i < boxes_.size(); ++i) {
      const std::size_t count = boxes_[i].take_credit();
      if (count > 0) channel_.send(Word::taken, encode(Taken{static_cast<int>(i), count}));
    }
    channel_.flush();
  }

  void ping(TimePoint now) {
    if (now < next_ping_) return;
    next_ping_ = now + kPingPause;
    tell(Word::ping, encode_number(microseconds(now)));
  }

  // --- ending ---

  /// The connection ends when the agent has.
  void await_agent() {
    std::array<std::byte, 4096> rest;
    const int output = connection_.process.output.fd();
    while (await_events(output, POLLIN, *parted_at_ + kLastBreath)) {
      const auto got = ::read(output, rest.data(), rest.size());
      if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return;
    }
  }

  void look_at_the_end(TimePoint now) {
    if (gone()) return;
    if (channel_.closed() && !closed_at_) closed_at_ = now;
    const bool ended = exit_ && channel_.drained();
    if (ended || (closed_at_ && now - *closed_at_ >= kLastBreath)) return connection_ended(now);
    if (greeted_ && now - channel_.heard() >= kSilence) {
      give_up(fmt::format("no word from it for {} s", kSilence.count()), kLost,
              channel_.heard() + kPingPause);
    } else if (state_ == State::making_ready && now >= deadline_) {
      const std::string words = connection_.stderr_tail.quoted();
      give_up(fmt::format("no answer within {} s (--start-timeout){}",
                          std::chrono::duration<double>(timeout_).count(), words.empty() ? "" : ": " + words),
              kLost, now);
    }
  }

  void connection_ended(TimePoint now) {
    connection_.stderr_tail.read();
    const std::string words = connection_.stderr_tail.quoted();
    const int code = exit_.value_or(kLost);
    if (!greeted_) return give_up(road_.explain(words, code), kLost, now);
    give_up(fmt::format("the connection to its agent ended (code {}){}{}", code, words.empty() ? "" : ": ",
                        words),
            kLost, now);
  }

  [[nodiscard]] bool all_output_came() const {
    return std::all_of(boxes_.begin(), boxes_.end(), [](const Inbox& box) { return box.closed(); });
  }

  /// The end of this host. Its agent ends what is still there.
  void give_up(const std::string& why, int exit_code, TimePoint when) {
    given_up_ = true;
    trouble_ = why;
    if (!exit_) ::kill(-connection_.process.pid, SIGKILL);
    const bool complete = state_ == State::over && all_output_came();
    for (auto& box : boxes_) box.end();
    if (state_ == State::making_ready || state_ == State::ready) {
      state_ = State::failed;
      return;
    }
    state_ = State::over;
    if (complete) return;
    RankEvent event;
    event.kind = RankEvent::Kind::host_lost;
    event.ending = {exit_code, why};
    event.when = when;
    events_.push_back(event);
  }

  const Road road_;
  const HostPlan plan_;
  const std::chrono::milliseconds timeout_;
  const TimePoint deadline_;
  Connection connection_;
  AgentChannel& channel_;
  State state_ = State::making_ready;
  std::string trouble_;
  Ready ready_;
  std::vector<Inbox> boxes_;
  std::vector<RankEvent> events_;
  ClockOffset clock_;
  std::size_t input_window_ = kWindow;
  TimePoint next_ping_ = TimePoint::max();
  std::optional<TimePoint> closed_at_;
  std::optional<TimePoint> parted_at_;
  std::optional<int> exit_;  // of the program that leads there, once it was reaped
  bool greeted_ = false;
  bool any_started_ = false;  // of the ranks
  bool given_up_ = false;
};

}  // namespace

std::unique_ptr<HostRanks> make_remote_ranks(const Road& road, const HostPlan& plan,
                                             std::chrono::milliseconds timeout, TimePoint now) {
  return std::make_unique<RemoteRanks>(road, plan, timeout, now);
}

}  // namespace hora::hrun
