// SPDX-License-Identifier: Apache-2.0
#include "test/bench/hosts.h"

#include "core/backend/tcp/address.h"
#include "core/base/memory.h"
#include "core/comm/exchange.h"
#include "core/comm/network.h"
#include "core/device/kernels.h"
#include "core/runtime/connect.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora::bench {
namespace {

constexpr std::chrono::seconds kPatience(30);

class PlaneContender final : public Contender {
 public:
  PlaneContender(Collective& collective, const Options& options)
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
  HalfContender(Collective& collective, const Options& options)
      : collective_(collective),
        buffer_(allocate_zeroed(options.end)),
        wire_(allocate_zeroed(options.end)),
        op_(options.op) {}

  [[nodiscard]] std::string name() const override { return "half"; }
  [[nodiscard]] void* data() const override { return buffer_.get(); }
  [[nodiscard]] bool is_exact() const override { return false; }
  void run(std::size_t count) override {
    kernels::cast(wire_.get(), DType::float16, buffer_.get(), DType::float32, count);
    const Segment segment{wire_.get(), wire_.get(), count};
    collective_.allreduce({&segment, 1}, {DType::float16, op_, 1.0, 1.0, 1});
    kernels::cast(buffer_.get(), DType::float32, wire_.get(), DType::float16, count);
  }

 private:
  Collective& collective_;
  std::shared_ptr<std::byte> buffer_;
  std::shared_ptr<std::byte> wire_;
  ReduceOp op_;
};

/// A connection of its own to the rank half the job away.
Descriptor connect_across(Control& control) {
  const int half = control.size() / 2;
  const bool listens = control.rank() < half;
  Descriptor listener;
  std::string told;
  if (listens) {
    listener = listen_at({own_addresses("").front(), "0"});
    const Address address = local_address(listener.fd());
    told = format(address);
  }
  const auto all = exchange(control, std::as_bytes(std::span(told)), Clock::now() + kPatience);
  if (listens) {
    await_events(listener.fd(), POLLIN, Clock::now() + kPatience);
    Descriptor socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) throw Error(Code::unavailable, "nobody connects to measure the link");
    prepare_socket(socket.fd());
    return socket;
  }
  const auto& theirs = all[static_cast<std::size_t>(control.rank() - half)];
  Descriptor socket =
      begin_connect(parse_address({reinterpret_cast<const char*>(theirs.data()), theirs.size()}));
  if (!socket || !await_events(socket.fd(), POLLOUT, Clock::now() + kPatience))
    throw Error(Code::unavailable, "cannot connect to measure the link");
  prepare_socket(socket.fd());
  return socket;
}

class RawContender final : public Contender {
 public:
  RawContender(Control& control, const Options& options)
      : socket_(connect_across(control)),
        out_(allocate_zeroed(options.end)),
        in_(allocate_zeroed(options.end)),
        each_(size_of(options.dtype)),
        pairs_(static_cast<std::size_t>(control.size() / 2)) {}

  [[nodiscard]] std::string name() const override { return "raw"; }
  [[nodiscard]] void* data() const override { return out_.get(); }
  [[nodiscard]] bool is_exact() const override { return false; }
  void run(std::size_t count) override {
    const std::size_t all = std::max<std::size_t>(1, count * each_ / pairs_);
    std::size_t sent = 0;
    std::size_t got = 0;
    while (sent < all || got < all) {
      const bool moved_out =
          sent < all && move(::send(socket_.fd(), out_.get() + sent, all - sent, kFlags), sent);
      const bool moved_in =
          got < all && move(::recv(socket_.fd(), in_.get() + got, all - got, MSG_DONTWAIT), got);
      const int wanted = (sent < all ? POLLOUT : 0) | (got < all ? POLLIN : 0);
      if (!moved_out && !moved_in && wanted != 0)
        await_events(socket_.fd(), static_cast<short>(wanted), TimePoint::max());
    }
  }

 private:
  static constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

  static bool move(ssize_t moved, std::size_t& sum) {
    if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
      throw Error(Code::unavailable, "the connection that measures the link broke");
    if (moved > 0) sum += static_cast<std::size_t>(moved);
    return moved > 0;
  }

  Descriptor socket_;
  std::shared_ptr<std::byte> out_;
  std::shared_ptr<std::byte> in_;
  std::size_t each_;
  std::size_t pairs_;
};

}  // namespace

World connect_hosts(Config config) {
  if (config.size < 2 || config.size % 2 != 0)
    throw Error(Code::invalid_argument, "--level hosts: expected two hosts of as many ranks");
  World world = connect(config);
  world.control->on_loss(
      [collective = world.lane.collective.get()](const Status& why) { collective->abort(why); });
  return world;
}

Contenders hosts_contenders(World& hosts, const Options& options) {
  Contenders contenders;
  contenders.push_back(std::make_unique<PlaneContender>(*hosts.lane.collective, options));
  contenders.push_back(std::make_unique<RawContender>(*hosts.control, options));
  if (options.dtype == DType::float32)
    contenders.push_back(std::make_unique<HalfContender>(*hosts.lane.collective, options));
  return contenders;
}

}  // namespace hora::bench
