// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/agent_connection.h"

#include "runner/launch/environment.h"

#include <hora/hora.h>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <sstream>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kTimeToEnd{1};  // for the program to end after its connection has

}  // namespace

AgentConnection::AgentConnection(RemoteHost remote, TimePoint now)
    : host_(std::move(remote)),
      input_(make_pipe()),
      process_(start(host_.command, input_)),
      channel_(process_.output.fd(), input_.write.fd(), now),
      errors_(std::move(process_.errors)) {}

AgentConnection::~AgentConnection() {
  if (exit_) return;
  if (parted_at_) await_agent();
  ::kill(-process_.pid, SIGKILL);
  ::waitpid(process_.pid, nullptr, 0);
}

Process AgentConnection::start(const std::vector<std::string>& command, Pipe& input) {
  ProcessPlan plan;
  plan.command = command;
  plan.environment = own_environment();
  plan.input = input.read.fd();
  Process process = hrun::start(plan);
  input.read = Descriptor();
  return process;
}

void AgentConnection::send(Word word, std::span<const std::byte> body) {
  if (over_) return;
  channel_.send(word, body);
  channel_.flush();
}

bool AgentConnection::read(TimePoint now) {
  errors_.read();
  if (greeted_ && now - next_ping_ > 2 * pause()) stood_still_ = now;
  channel_.read(now);
  if (greeted_) return false;
  while (foreign_version_.empty()) {
    const auto line = channel_.next_line();
    if (!line) return false;
    if (line->starts_with(kGreeting)) greet(*line);
    if (greeted_) return true;
  }
  return false;
}

/// Checks the version of the agent. Nothing is sent to an agent of another version.
void AgentConnection::greet(const std::string& line) {
  std::istringstream words(line);
  std::string greeting;
  std::string its_version;
  std::string path;
  words >> greeting >> its_version >> path;
  if (its_version != version()) {
    foreign_version_ =
        fmt::format("its hrun ({}) is of version {}, and this one of {}: install the same on all hosts", path,
                    its_version, version());
    return;
  }
  greeted_ = true;
  errors_.clear();  // drops the messages of the login: banners, new host keys
  speak(Clock::now());
}

std::optional<AgentMessage> AgentConnection::next_message(TimePoint now) {
  while (greeted_ && !over_) {
    auto message = channel_.next();
    if (!message || message->word != Word::pong) return message;
    clock_.add(decode_pong(message->body), microseconds(now));
  }
  return std::nullopt;
}

void AgentConnection::speak(TimePoint now) {
  if (now >= next_ping_) {
    next_ping_ = now + pause();
    channel_.send(Word::ping, encode_number(microseconds(now)));
  }
  channel_.flush();
}

std::optional<AgentConnection::Loss> AgentConnection::loss(TimePoint now) {
  if (!foreign_version_.empty()) return Loss{foreign_version_, now};
  if (channel_.closed() && !closed_at_) closed_at_ = now;
  const bool ended = exit_ && channel_.drained();
  if (ended || (closed_at_ && now - *closed_at_ >= kTimeToEnd)) return Loss{why_it_ended(), now};
  if (greeted_ && now - silent_since() >= silence_) {
    const double seconds = std::chrono::duration<double>(silence_).count();
    return Loss{fmt::format("no word from it for {:g} s", seconds), channel_.heard() + pause()};
  }
  return std::nullopt;
}

std::string AgentConnection::why_it_ended() {
  errors_.read();
  const std::string words = errors_.quoted();
  const int code = exit_.value_or(kHostLost);
  if (!greeted_) return host_.explain(words, code);
  return fmt::format("the connection to its agent ended (code {}){}{}", code, words.empty() ? "" : ": ",
                     words);
}

void AgentConnection::drop() {
  over_ = true;
  if (!exit_) ::kill(-process_.pid, SIGKILL);
}

void AgentConnection::part() {
  if (over_) return;
  parted_at_ = Clock::now();
  channel_.hang_up();
  input_.write = Descriptor();
}

/// Waits until the agent has ended, and with it the connection.
void AgentConnection::await_agent() const {
  std::array<std::byte, 4096> rest;
  const int output = process_.output.fd();
  while (await_events(output, POLLIN, *parted_at_ + kTimeToEnd)) {
    const auto got = ::read(output, rest.data(), rest.size());
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return;
  }
}

void AgentConnection::watch(std::vector<pollfd>& events) const {
  if (over_) return;
  channel_.watch(events);
  errors_.watch(events);
}

TimePoint AgentConnection::next() const {
  if (over_) return TimePoint::max();
  if (closed_at_) return *closed_at_ + kTimeToEnd;
  return greeted_ ? std::min(next_ping_, silent_since() + silence_) : TimePoint::max();
}

void AgentConnection::child_changed(int pid, int wait_status) {
  const bool ended = WIFEXITED(wait_status) || WIFSIGNALED(wait_status);
  if (ended && pid == process_.pid) exit_ = describe_ending(wait_status).exit_code;
}

}  // namespace hora::hrun
