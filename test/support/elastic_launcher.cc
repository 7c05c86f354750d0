// SPDX-License-Identifier: Apache-2.0
#include "test/support/elastic_launcher.h"

#include "core/base/socket_io.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <system_error>

namespace hora {
namespace {

using Order = elastic::LeaderAction::Kind;

Secret make_secret() {
  static std::atomic<unsigned char> made{0};
  Secret secret{};
  secret.fill(++made);
  return secret;
}

}  // namespace

ElasticLauncher::ElasticLauncher(const elastic::ElasticPolicy& policy)
    : leader_(policy), job_secret_(make_secret()) {
  for (int process = 0; process < policy.max_members; ++process) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category());
    lines_.push_back({Descriptor(ends[0]), Descriptor(ends[1])});
  }
  thread_ = std::thread([this] { run(); });
}

ElasticLauncher::~ElasticLauncher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_up_.ring();
  thread_.join();
}

Config ElasticLauncher::settings(int process) const {
  Config config;
  config.rank = process;
  config.size = static_cast<int>(lines_.size());
  config.coordinator = "127.0.0.1:1";
  config.secret = job_secret_;
  config.member_fd = lines_.at(static_cast<std::size_t>(process)).theirs.fd();
  config.member_id = static_cast<std::uint64_t>(process) + 1;
  return config;
}

void ElasticLauncher::die(int process, const std::string& how) {
  const std::lock_guard lock(mutex_);
  read(static_cast<std::size_t>(process));
  lost_id_ = static_cast<elastic::MemberId>(process) + 1;
  lost_ = fmt::format("process {} {}", process, how);
  carry_out(leader_.die(lost_id_, Clock::now()));
}

void ElasticLauncher::let_go(int process) {
  const std::lock_guard lock(mutex_);
  carry_out(leader_.let_go(static_cast<elastic::MemberId>(process) + 1, Clock::now()));
}

elastic::GenerationRecord ElasticLauncher::record() const {
  const std::lock_guard lock(mutex_);
  return leader_.record();
}

std::vector<int> ElasticLauncher::killed() const {
  const std::lock_guard lock(mutex_);
  return killed_;
}

void ElasticLauncher::run() {
  while (true) {
    std::vector<pollfd> events{wake_up_.event()};
    TimePoint next;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      for (const auto& line : lines_) events.push_back({line.ours.fd(), POLLIN, 0});
      next = leader_.next();
    }
    ::poll(events.data(), events.size(), milliseconds_until(next));
    wake_up_.silence();
    const std::lock_guard lock(mutex_);
    for (std::size_t process = 0; process < lines_.size(); ++process) read(process);
    carry_out(leader_.tick(Clock::now()));
  }
}

/// Passes on what the process has said. Under the mutex.
void ElasticLauncher::read(std::size_t process) {
  Line& line = lines_[process];
  std::array<std::byte, 4096> buffer;
  while (true) {
    const auto got = ::recv(line.ours.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got <= 0) return;
    const auto message =
        elastic::decode_member_message(std::span(buffer).first(static_cast<std::size_t>(got)));
    if (message.port != 0) line.port = message.port;
    const elastic::MemberInfo from{process + 1, 0, static_cast<int>(process)};
    carry_out(elastic::deliver(leader_, from, message, Clock::now()));
  }
}

void ElasticLauncher::carry_out(const elastic::Leader::Actions& actions) {
  const Secret secret = make_secret();
  for (const auto& action : actions) {
    if (action.kind == Order::kill) {
      killed_.push_back(static_cast<int>(action.to) - 1);
    } else if (action.kind != Order::end_job) {
      elastic::LeaderMessage message = elastic::message_of(action);
      if (action.kind == Order::stop) {
        message.lost = lost_id_;
        message.why = lost_;
      } else if (action.kind == Order::record) {
        const auto first = static_cast<std::size_t>(action.record.members.front().id) - 1;
        message.coordinator = fmt::format("127.0.0.1:{}", lines_[first].port);
        message.secret = secret;
      }
      const Bytes bytes = encode(message);
      ::send(lines_[static_cast<std::size_t>(action.to) - 1].ours.fd(), bytes.data(), bytes.size(),
             MSG_NOSIGNAL);
    }
  }
}

}  // namespace hora
