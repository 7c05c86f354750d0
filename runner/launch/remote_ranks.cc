// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/remote_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

namespace hora::hrun {
namespace {

/// One output of a rank, on its way from the agent.
class OutputStream {
 public:
  /// The output of the process that was started last.
  [[nodiscard]] std::shared_ptr<OutputSource> newest() const { return boxes_.back(); }
  /// Another process of the rank is started. The rest of the former output ends before that of the new one.
  void begin() { boxes_.push_back(std::make_shared<Inbox>()); }
  /// Bytes of the agent; none: the end of the output of a process.
  void put(std::string_view bytes) {
    Inbox& box =
        **std::find_if(boxes_.begin(), boxes_.end() - 1, [](const auto& one) { return !one->closed(); });
    if (bytes.empty()) return box.end();
    if (box.closed() || box.size() + bytes.size() > kWindow)
      throw Error(Code::internal, "more output than was asked for");
    box.put(bytes);
  }
  void end() {
    for (const auto& box : boxes_) box->end();
  }
  [[nodiscard]] bool closed() const { return boxes_.back()->closed(); }
  /// How many bytes were read since the last call. Lets go of what was read to its end.
  std::size_t take_credit() {
    std::size_t credit = 0;
    for (const auto& box : boxes_) credit += box->take_credit();
    while (boxes_.size() > 1 && boxes_.front()->ended()) boxes_.pop_front();
    return credit;
  }

 private:
  std::deque<std::shared_ptr<Inbox>> boxes_{std::make_shared<Inbox>()};  // never empty
};

/// Turns the agent's messages into events of the ranks, and calls into messages to the agent. AgentConnection
/// keeps the connection. If the connection is lost, or the agent refuses, the host is given up.
class RemoteRanks final : public HostRanks {
 public:
  RemoteRanks(const RemoteHost& remote, HostPlan plan, std::chrono::milliseconds timeout, TimePoint now)
      : plan_(std::move(plan)),
        timeout_(timeout),
        deadline_(now + timeout),
        connection_(remote, now),
        silence_(remote.silence),
        streams_(plan_.placements.size() * 2) {}

  [[nodiscard]] State state() const override { return state_; }
  [[nodiscard]] const std::string& trouble() const override { return trouble_; }
  [[nodiscard]] const Ready& ready() const override { return ready_; }

  void start(const RendezvousPoint& rendezvous) override {
    state_ = State::running;
    starts_ = plan_.placements.size();
    connection_.send(Word::start, encode(rendezvous));
  }
  void start_one(int index, const RankPlacement& placement, elastic::MemberId member) override {
    state_ = State::running;
    ++starts_;
    if (index == ranks()) {
      streams_.resize(streams_.size() + 2);
    } else {
      for (const int number : {2 * index, 2 * index + 1})
        streams_.at(static_cast<std::size_t>(number)).begin();
    }
    connection_.send(Word::start_one, encode(StartOne{index, member, placement}));
  }
  void interrupt() override { connection_.send(Word::interrupt); }
  void terminate() override { connection_.send(Word::terminate); }
  void kill() override { connection_.send(Word::kill); }
  void kill_one(int index) override { connection_.send(Word::kill_one, encode_index(index)); }
  void send(int index, const elastic::LeaderMessage& message) override {
    // All ranks have joined, so the agent is not busy starting them.
    if (!std::exchange(is_elastic_, true)) connection_.set_silence(silence_, Clock::now());
    connection_.send(Word::leader_message, encode(ToMember{index, message}));
  }
  void tell(const RankEnd& end) override { connection_.send(Word::news, encode(end)); }
  void ask(const Question& question) override {
    if (state_ == State::running) connection_.send(Word::question, encode(question));
  }
  [[nodiscard]] std::size_t room() const override {
    return connection_.over() || state_ != State::running || connection_.full() ? 0 : input_window_;
  }
  void feed(std::string_view bytes) override {
    input_window_ -= bytes.size();
    connection_.send(Word::input, bytes_of(bytes));
  }
  void resize(WindowSize size) override { connection_.send(Word::window, encode(size)); }
  void part() override { connection_.part(); }

  void watch(std::vector<pollfd>& events) const override { connection_.watch(events); }
  [[nodiscard]] TimePoint next() const override {
    const bool has_deadline = state_ == State::making_ready && !connection_.closed();
    return has_deadline ? std::min(connection_.next(), deadline_) : connection_.next();
  }
  void child_changed(int pid, int wait_status, TimePoint /*now*/) override {
    connection_.child_changed(pid, wait_status);
  }

  std::vector<RankEvent> turn(TimePoint now) override {
    if (!connection_.over()) {
      try {
        if (connection_.read(now)) connection_.send(Word::plan, encode(plan_));
        while (const auto message = connection_.next_message(now)) take(*message, now);
        if (connection_.greeted()) speak(now);
        look_at_the_end(now);
      } catch (const Error& error) {
        give_up(fmt::format("it speaks another language: {}", error.what()), kHostLost, now);
      }
    }
    return std::exchange(events_, {});
  }

  [[nodiscard]] std::shared_ptr<OutputSource> output(int index) override {
    return streams_.at(2 * std::size_t(index)).newest();
  }
  [[nodiscard]] std::shared_ptr<OutputSource> errors(int index) override {
    return streams_.at(2 * std::size_t(index) + 1).newest();
  }

 private:
  [[nodiscard]] int ranks() const { return static_cast<int>(streams_.size() / 2); }

  // --- hearing ---

  void take(const AgentMessage& message, TimePoint now) {
    switch (message.word) {
      case Word::ready:
        ready_ = decode_ready(message.body);
        if (state_ == State::making_ready) state_ = State::ready;
        return;
      case Word::refused:
        give_up(std::string(text_of(message.body)), any_started_ ? kHostLost : kNotStarted, now);
        return;
      case Word::started: take_started(decode_started(message.body, ranks())); return;
      case Word::ended: take_ended(decode_ended(message.body, ranks()), now); return;
      case Word::stopped: take_stopped(decode_stopped(message.body, ranks()), now); return;
      case Word::answer: take_answer(decode_rank_reply(message.body, ranks())); return;
      case Word::member_message:
        if (!plan_.elastic) throw Error(Code::internal, "a message of a member, of a job that has none");
        return take_message(decode_from_member(message.body, ranks()));
      case Word::over:
        if (decode_number(message.body) == starts_) state_ = State::over;  // else others were started since
        return;
      case Word::output: take_output(decode_piece(message.body, ranks())); return;
      case Word::input_taken: input_window_ += decode_window(message.body, input_window_); return;
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
    events_.push_back(
        {.kind = RankEvent::Kind::answered, .index = answer.index, .answer = std::move(answer.answer)});
  }

  void take_message(FromMember from) {
    events_.push_back(
        {.kind = RankEvent::Kind::told, .index = from.index, .message = std::move(from.message)});
  }

  void take_ended(const Ended& ended, TimePoint now) {
    RankEvent event;
    event.kind = RankEvent::Kind::ended;
    event.index = ended.index;
    event.ending = {ended.exit_code, ended.how, ended.signal};
    event.when = connection_.ours(ended.when, now);
    events_.push_back(event);
  }

  void take_stopped(const Stopped& stopped, TimePoint now) {
    RankEvent event;
    event.kind = stopped.signal == 0 ? RankEvent::Kind::resumed : RankEvent::Kind::stopped;
    event.index = stopped.index;
    if (stopped.signal != 0) event.ending = describe_stop(stopped.signal);
    event.when = connection_.ours(stopped.when, now);
    events_.push_back(event);
  }

  void take_output(const OutputPiece& piece) {
    streams_.at(static_cast<std::size_t>(piece.stream)).put(piece.bytes);
  }

  // --- speaking ---

  void speak(TimePoint now) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const std::size_t count = streams_[i].take_credit();
      if (count > 0) connection_.queue(Word::taken, encode(Taken{static_cast<int>(i), count}));
    }
    connection_.speak(now);
  }

  // --- ending ---

  void look_at_the_end(TimePoint now) {
    if (connection_.over()) return;
    if (const auto loss = connection_.loss(now)) return give_up(loss->why, kHostLost, loss->when);
    if (state_ != State::making_ready || now < deadline_) return;
    const std::string words = connection_.words();
    give_up(fmt::format("no answer within {} s (--start-timeout){}",
                        std::chrono::duration<double>(timeout_).count(), words.empty() ? "" : ": " + words),
            kHostLost, now);
  }

  [[nodiscard]] bool all_output_came() const {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const OutputStream& stream) { return stream.closed(); });
  }

  /// Gives the host up. The agent ends the ranks that still run there.
  void give_up(const std::string& why, int exit_code, TimePoint when) {
    connection_.drop();
    trouble_ = why;
    const bool complete = state_ == State::over && all_output_came();
    for (auto& stream : streams_) stream.end();
    if (state_ == State::making_ready || state_ == State::ready) {
      state_ = State::failed;
      return;
    }
    state_ = State::over;
    if (complete && !plan_.elastic) return;  // others may still be started on a host of an elastic job
    RankEvent event;
    event.kind = RankEvent::Kind::host_lost;
    event.ending = {exit_code, why};
    event.when = when;
    events_.push_back(event);
  }

  const HostPlan plan_;
  const std::chrono::milliseconds timeout_;
  const TimePoint deadline_;
  AgentConnection connection_;
  const std::chrono::milliseconds silence_;  // of an elastic job
  bool is_elastic_ = false;                  // as far as is known
  State state_ = State::making_ready;
  std::string trouble_;
  Ready ready_;
  std::vector<OutputStream> streams_;  // see OutputPiece
  std::vector<RankEvent> events_;
  std::size_t input_window_ = kWindow;
  bool any_started_ = false;  // of the ranks of this host
  std::uint64_t starts_ = 0;  // of processes that the agent was asked for
};

}  // namespace

std::unique_ptr<HostRanks> make_remote_ranks(const RemoteHost& remote, const HostPlan& plan,
                                             std::chrono::milliseconds timeout, TimePoint now) {
  return std::make_unique<RemoteRanks>(remote, plan, timeout, now);
}

}  // namespace hora::hrun
