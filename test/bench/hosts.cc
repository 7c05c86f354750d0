// SPDX-License-Identifier: Apache-2.0
#include "test/bench/hosts.h"

#include "core/base/memory.h"
#include "core/fuse/pack.h"
#include "core/join/address.h"
#include "core/join/exchange.h"
#include "core/join/network.h"
#include "test/support/join_job.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora::bench {
namespace {

constexpr std::chrono::seconds kTimeout(30);

class HostsContender final : public Contender {
 public:
  HostsContender(Collective& collective, const Options& options)
      : collective_(collective),
        buffer_(allocate_zeroed(options.end)),
        reduction_{options.dtype, options.op, 1.0, 1.0, 1} {}

  [[nodiscard]] std::string name() const override { return "hora"; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  void run(std::size_t count) override {
    const Segment segment{buffer_.get(), buffer_.get(), count};
    collective_.allreduce({&segment, 1}, reduction_);
  }

 private:
  Collective& collective_;
  std::shared_ptr<std::byte> buffer_;
  Reduction reduction_;
};

class HalfContender final : public Contender {
 public:
  HalfContender(Lane& lane, const Options& options)
      : packer_(lane, options.end), buffer_(allocate_zeroed(options.end)), op_(options.op) {}

  [[nodiscard]] std::string name() const override { return "half"; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  [[nodiscard]] bool is_exact() const override { return false; }
  void run(std::size_t count) override {
    const Segment piece{buffer_.get(), buffer_.get(), count};
    packer_.allreduce({&piece, 1}, DType::float32, {DType::float16, op_, 1.0, 1.0, 1});
  }

 private:
  Packer packer_;
  std::shared_ptr<std::byte> buffer_;
  ReduceOp op_;
};

using Ranks = std::vector<int>;

/// The ranks whose bytes cross a network: every other rank if each moves its bytes through sockets; else the
/// rank half the job away, on the other host.
Ranks ranks_across(const Control& control, bool sockets_alone) {
  const int half = control.size() / 2;
  if (!sockets_alone) return {(control.rank() + half) % control.size()};
  Ranks others;
  for (int rank = 0; rank < control.size(); ++rank) {
    if (rank != control.rank()) others.push_back(rank);
  }
  return others;
}

Descriptor call(const Bytes& told) {
  Descriptor socket = begin_connect(parse_address({reinterpret_cast<const char*>(told.data()), told.size()}));
  if (!socket || !await_events(socket.fd(), POLLOUT, Clock::now() + kTimeout))
    throw Error(Code::unavailable, "cannot connect to measure the link");
  prepare_socket(socket.fd());
  prepare_data_socket(socket.fd());
  return socket;
}

Descriptor answer(const Descriptor& listener) {
  await_events(listener.fd(), POLLIN, Clock::now() + kTimeout);
  Descriptor socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) throw Error(Code::unavailable, "nobody connects to measure the link");
  prepare_socket(socket.fd());
  prepare_data_socket(socket.fd());
  return socket;
}

/// A connection of its own to each of these ranks, who do the same. The higher of two calls.
std::vector<Descriptor> connect_to(Control& control, const Ranks& ranks) {
  const Descriptor listener = listen_at({own_addresses("").front(), "0"});
  const std::string told = format(local_address(listener.fd()));
  const auto all = exchange(control, std::as_bytes(std::span(told)), Clock::now() + kTimeout);
  std::vector<Descriptor> sockets;
  for (const int rank : ranks) {
    if (rank < control.rank()) sockets.push_back(call(all[static_cast<std::size_t>(rank)]));
  }
  while (sockets.size() < ranks.size()) sockets.push_back(answer(listener));
  return sockets;
}

/// Moves as many bytes as an allreduce has to, and does nothing else. Between two hosts each pair of ranks
/// takes its part of the elements across; where all ranks are apart, each gets a part of the elements from
/// all, and gives the result to all.
class RawContender final : public Contender {
 public:
  RawContender(Control& control, const Options& options, bool sockets_alone)
      : out_(allocate_zeroed(2 * options.end)),
        in_(allocate_zeroed(2 * options.end)),
        each_(size_of(options.dtype)),
        parts_(static_cast<std::size_t>(control.size() / 2)) {
    for (Descriptor& socket : connect_to(control, ranks_across(control, sockets_alone)))
      ways_.push_back({std::move(socket)});
    events_.resize(ways_.size());
  }

  [[nodiscard]] std::string name() const override { return "raw"; }
  [[nodiscard]] void* data() const override { return out_.get(); }
  [[nodiscard]] bool is_exact() const override { return false; }
  void run(std::size_t count) override {
    const std::size_t all = std::max<std::size_t>(1, count * each_ / parts_);
    for (Way& way : ways_) way.sent = way.got = 0;
    for (;;) {
      bool moved = false;
      for (std::size_t i = 0; i < ways_.size(); ++i) moved |= advance(ways_[i], i * all, all);
      if (!moved && !wait(all)) return;
    }
  }

 private:
  static constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

  /// A connection, and how many bytes have gone and come.
  struct Way {
    Descriptor socket;
    std::size_t sent = 0;
    std::size_t got = 0;
  };

  /// A bit in each direction.
  bool advance(Way& way, std::size_t begin, std::size_t all) {
    const int fd = way.socket.fd();
    const bool moved_out =
        way.sent < all && move(::send(fd, out_.get() + begin + way.sent, all - way.sent, kFlags), way.sent);
    const bool moved_in =
        way.got < all && move(::recv(fd, in_.get() + begin + way.got, all - way.got, MSG_DONTWAIT), way.got);
    return moved_out || moved_in;
  }

  static bool move(ssize_t moved, std::size_t& sum) {
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
      throw Error(Code::unavailable, "the connection that measures the link broke");
    if (moved > 0) sum += static_cast<std::size_t>(moved);
    return moved > 0;
  }

  /// Until something can be done; false: all is done.
  bool wait(std::size_t all) {
    std::size_t used = 0;
    for (const Way& way : ways_) {
      const int wanted = (way.sent < all ? POLLOUT : 0) | (way.got < all ? POLLIN : 0);
      if (wanted != 0) events_[used++] = {way.socket.fd(), static_cast<short>(wanted), 0};
    }
    if (used > 0) ::poll(events_.data(), used, -1);
    return used > 0;
  }

  std::vector<Way> ways_;
  std::vector<pollfd> events_;
  std::shared_ptr<std::byte> out_;
  std::shared_ptr<std::byte> in_;
  std::size_t each_;
  std::size_t parts_;  // of the elements, of which each crosses a connection in both directions
};

}  // namespace

World connect_hosts(Config config) {
  if (config.size < 2 || config.size % 2 != 0)
    throw Error(Code::invalid_argument, "--level hosts: expected two hosts of as many ranks");
  World world = join_job(config);
  world.control->on_loss(
      [collective = world.lane.collective.get()](const Status& why) { collective->abort(why); });
  return world;
}

Contenders hosts_contenders(World& hosts, const Config& config, const Options& options) {
  const bool sockets_alone = config.cpu_operations == "tcp";
  Contenders contenders;
  contenders.push_back(std::make_unique<HostsContender>(*hosts.lane.collective, options));
  contenders.push_back(std::make_unique<RawContender>(*hosts.control, options, sockets_alone));
  if (options.dtype == DType::float32)
    contenders.push_back(std::make_unique<HalfContender>(hosts.lane, options));
  return contenders;
}

}  // namespace hora::bench
