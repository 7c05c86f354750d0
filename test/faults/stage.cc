// SPDX-License-Identifier: Apache-2.0
#include "test/faults/stage.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <stdexcept>
#include <utility>

namespace hora {
namespace {

constexpr int kTestIsGone = 99;

/// The seconds of the clock that all processes of a machine share.
double seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

Stage::Stage(const std::string& path, int rank)
    : rank_(rank), socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("the path is too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("no stage at " + path);
  listener_ = std::thread([this] { listen(); });
}

Stage::~Stage() {
  leaving_ = true;
  ::shutdown(socket_, SHUT_RD);
  listener_.join();
  ::close(socket_);
}

void Stage::say(const std::string& event, nlohmann::json more) {
  more["rank"] = rank_;
  more["event"] = event;
  more["at"] = seconds();
  const std::string line = more.dump() + "\n";
  const std::lock_guard lock(writing_);
  if (::send(socket_, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    ::_exit(kTestIsGone);
}

void Stage::await(const std::string& cue) {
  std::unique_lock lock(mutex_);
  arrival_.wait(lock, [&] { return cues_.contains(cue); });
}

bool Stage::heard(const std::string& cue) {
  const std::lock_guard lock(mutex_);
  return cues_.contains(cue);
}

/// Cues are words, a line each.
void Stage::listen() {
  std::string line;
  for (char letter = 0; ::recv(socket_, &letter, 1, 0) == 1;) {
    if (letter != '\n') {
      line += letter;
      continue;
    }
    const std::lock_guard lock(mutex_);
    cues_.insert(std::exchange(line, {}));
    arrival_.notify_all();
  }
  if (!leaving_) ::_exit(kTestIsGone);
}

}  // namespace hora
