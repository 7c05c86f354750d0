// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/event_fd.h"
#include "core/join/address.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <mutex>
#include <thread>

namespace hora {

/// Somebody on the way between an initiator and a responder: passes on what they say, keeps what the
/// initiator has said, and does something to what it says next when told to.
class Middleman {
 public:
  enum class Deed { none, flip, repeat, leave_out };

  explicit Middleman(const Address& responder)
      : listener_(listen_at({"127.0.0.1", "0"})), thread_([this, responder] { run(responder); }) {}
  ~Middleman() {
    over_ = true;
    wake_up_.ring();
    thread_.join();
  }
  Middleman(const Middleman&) = delete;
  Middleman& operator=(const Middleman&) = delete;

  [[nodiscard]] Address address() const { return local_address(listener_.fd()); }
  void next(Deed deed) { deed_ = deed; }
  /// Whether that has been done.
  [[nodiscard]] bool done() const { return deed_ == Deed::none; }
  [[nodiscard]] Bytes said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }

 private:
  void run(const Address& to) {
    if (!comes(listener_)) return;
    const Descriptor initiator(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    const Descriptor responder = begin_connect(to);
    await_events(responder.fd(), POLLOUT, TimePoint::max());
    while (!over_) {
      std::array<pollfd, 3> events{
          wake_up_.event(), {initiator.fd(), POLLIN, 0}, {responder.fd(), POLLIN, 0}};
      ::poll(events.data(), events.size(), -1);
      if (events[1].revents != 0 && !pass(initiator, responder, true)) return;
      if (events[2].revents != 0 && !pass(responder, initiator, false)) return;
    }
  }

  bool comes(const Descriptor& socket) {
    std::array<pollfd, 2> events{wake_up_.event(), {socket.fd(), POLLIN, 0}};
    ::poll(events.data(), events.size(), -1);
    return !over_;
  }

  bool pass(const Descriptor& from, const Descriptor& to, bool of_initiator) {
    Bytes bytes(65536);
    const auto got = ::recv(from.fd(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    bytes.resize(static_cast<std::size_t>(got));
    const Deed deed = of_initiator ? deed_.exchange(Deed::none) : Deed::none;
    if (of_initiator) {
      const std::lock_guard lock(mutex_);
      said_.insert(said_.end(), bytes.begin(), bytes.end());
    }
    if (deed == Deed::flip) bytes.back() ^= std::byte{1};
    try {
      if (deed != Deed::leave_out) write_all(to.fd(), bytes, TimePoint::max());
      if (deed == Deed::repeat) write_all(to.fd(), bytes, TimePoint::max());
    } catch (const Error&) {
      return false;
    }
    return true;
  }

  Descriptor listener_;
  EventFd wake_up_;
  std::atomic<bool> over_ = false;
  std::atomic<Deed> deed_ = Deed::none;
  std::mutex mutex_;
  Bytes said_;
  std::thread thread_;
};

}  // namespace hora
