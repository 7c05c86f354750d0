// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/links.h"

#include "core/backend/tcp/data/streams.h"
#include "core/base/event_fd.h"
#include "core/base/thread.h"
#include "core/comm/unreachable_pairs.h"
#include "core/join/acceptor.h"
#include "core/join/address_book.h"
#include "core/join/connector.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

namespace hora::tcp {
namespace {

constexpr std::chrono::seconds kOthers{
    1};  // after the first rank that is out of reach: to name all in one go

/// The connections to one rank.
struct Link {
  explicit Link(std::size_t streams) : lines(streams, nullptr) {}
  std::deque<DataLine> owned;
  std::vector<DataLine*> lines;  // by stream; null: not there yet
  [[nodiscard]] bool complete() const {
    return std::find(lines.begin(), lines.end(), nullptr) == lines.end();
  }
};

/// Higher ranks call lower ones. The lower rank's side is a thread of its own, the acceptor thread, which
/// answers each call at once, whatever the engine does. So a rank that is reached answers at once, and only
/// one that is not reached lets a deadline pass. The higher rank's side is its engine, inside `require`,
/// which follows all its calls at once.
///
/// Threads. `mutex_` guards `links_`, where the acceptor thread and the engine put connections, and `why_`;
/// abort() takes it to shut them down, so that no connection escapes: one that is put there later is shut
/// down by whoever puts it. A link that is complete does not change, and the engine reads it without the
/// mutex; it has seen it complete under the mutex before (`ready_`). `wake_` ends the engine's wait: the
/// acceptor thread rings it when a connection has come, abort() when all is over.
///
/// No ring of waits. A call waits for nothing but the other rank's acceptor thread, which waits for nobody. A
/// rank that is called waits for the caller's engine to come to the same call of the same collective; engines
/// go through their collectives in one order, so of all that are not done yet, the first is under way on all
/// its members. A caller that fails says so through control, which aborts whoever waits for it; so does its
/// death. Being called therefore needs no deadline.
class LazyLinks final : public Links {
 public:
  LazyLinks(const World& world, const Config& config, AddressBook address_book)
      : config_(config),
        membership_(world.membership),
        members_(world.members),
        addresses_(std::move(address_book.addresses)),
        streams_(streams_between(config, world.members)),
        ready_(world.members.size(), false),
        acceptor_(std::move(address_book.listener), world.membership.secret, world.membership.rank) {
    for (std::size_t peer = 0; peer < world.members.size(); ++peer) links_.emplace_back(streams_);
    accept_thread_ = start_thread("accepts connections", [this] { answer(); });
  }

  ~LazyLinks() override {
    closing_.store(true, std::memory_order_release);
    close_event_.ring();
    accept_thread_.join();
  }
  LazyLinks(const LazyLinks&) = delete;
  LazyLinks& operator=(const LazyLinks&) = delete;

  [[nodiscard]] int rank() const override { return membership_.rank; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(links_.size()); }

  [[nodiscard]] std::span<DataLine* const> lines(int peer) const override {
    return links_[static_cast<std::size_t>(peer)].lines;
  }

  void require(std::span<const int> peers) override {
    std::vector<int> missing;
    for (const int peer : peers) {
      const bool known = std::find(missing.begin(), missing.end(), peer) != missing.end();
      if (peer != rank() && !ready_[static_cast<std::size_t>(peer)] && !known) missing.push_back(peer);
    }
    std::deque<Call> calls;
    for (const int peer : missing) {
      if (peer < rank()) call(calls, peer, 0, addresses_[static_cast<std::size_t>(peer)]);
    }
    const TimePoint latest = Clock::now() + config_.start_timeout;
    TimePoint end = latest;
    while (true) {
      const TimePoint now = Clock::now();
      follow(calls, now);
      if (all_ready(missing)) return;
      const auto failing = std::count_if(calls.begin(), calls.end(), [&](const Call& one) {
        return one.connector.hopeless(now) || is_cut_off(membership_, one.connector);
      });
      const bool all = failing == static_cast<std::ptrdiff_t>(calls.size());
      end = failing == 0 ? latest : std::min(end, all ? now : now + kOthers);
      if (!calls.empty() && now >= end) give_up(calls);
      wait(calls, end);
    }
  }

  void abort(const Status& why) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) return;
      aborted_ = true;
      why_ = why;
      for (const auto& link : links_) {
        for (const auto& line : link.owned) ::shutdown(line.socket.fd(), SHUT_RDWR);
      }
    }
    wake_.ring();
  }

 private:
  struct Call {
    int peer;
    int stream;
    Connector connector;
  };

  // --- the engine ---

  void call(std::deque<Call>& calls, int peer, int stream, const std::vector<Address>& addresses) {
    const Hello hello{Role::data, rank(), ranks(), peer, stream};
    calls.push_back({peer, stream, Connector(membership_.secret, hello, addresses, Clock::now())});
  }

  /// Goes on with all calls.
  void follow(std::deque<Call>& calls, TimePoint now) {
    for (std::size_t i = 0; i < calls.size();) {
      auto connection = calls[i].connector.serve(now);
      if (!connection) {
        ++i;
        continue;
      }
      const Call done = std::move(calls[i]);
      calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(i));
      put(done.peer, done.stream, *std::move(connection));
      if (done.stream > 0) continue;
      for (int stream = 1; stream < static_cast<int>(streams_); ++stream)
        call(calls, done.peer, stream, {done.connector.found()});
    }
  }

  bool all_ready(std::vector<int>& missing) {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw Error(why_);
    std::erase_if(missing, [this](int peer) {
      const auto at = static_cast<std::size_t>(peer);
      ready_[at] = links_[at].complete();
      return static_cast<bool>(ready_[at]);
    });
    return missing.empty();
  }

  void wait(const std::deque<Call>& calls, TimePoint end) const {
    std::vector<pollfd> events{wake_.event()};
    TimePoint until = calls.empty() ? TimePoint::max() : end;
    for (const auto& call : calls) {
      call.connector.append_to(events);
      until = std::min(until, call.connector.next());
    }
    ::poll(events.data(), events.size(), milliseconds_until(until));
    wake_.silence();
  }

  [[noreturn]] void give_up(const std::deque<Call>& calls) const {
    std::vector<UnreachablePair> unreachable_pairs;
    std::vector<int> peers;
    for (const auto& call : calls) {
      peers.push_back(call.peer);
      unreachable_pairs.push_back({members_[static_cast<std::size_t>(rank())],
                                   members_[static_cast<std::size_t>(call.peer)], call.connector.failures()});
    }
    throw UnreachableError(describe_unreachable(unreachable_pairs), std::move(peers));
  }

  // --- the engine and the acceptor thread ---

  void put(int peer, int stream, Connection connection) {
    const std::lock_guard lock(mutex_);
    auto& link = links_[static_cast<std::size_t>(peer)];
    const auto at = static_cast<std::size_t>(stream);
    if (link.lines[at] != nullptr) return;  // nobody of ours calls twice
    ::fcntl(connection.socket.fd(), F_SETFL, O_NONBLOCK);
    if (aborted_) ::shutdown(connection.socket.fd(), SHUT_RDWR);
    DataSocket socket = make_data_socket(connection, config_.encryption);
    link.lines[at] = &link.owned.emplace_back(DataLine{std::move(socket), std::move(connection.session)});
  }

  // --- the acceptor thread ---

  void answer() {
    while (!closing_.load(std::memory_order_acquire)) {
      std::vector<pollfd> events{close_event_.event()};
      acceptor_.append_to(events);
      ::poll(events.data(), events.size(), milliseconds_until(acceptor_.next()));
      for (auto& [connection, hello, member] : acceptor_.serve(Clock::now())) {
        const bool ours = hello.role == Role::data && hello.size == ranks() && hello.rank > rank() &&
                          hello.stream < static_cast<int>(streams_);
        if (ours) put(hello.rank, hello.stream, std::move(connection));
      }
      wake_.ring();
    }
  }

  const Config config_;
  Membership membership_;
  const std::vector<Member> members_;
  const std::vector<std::vector<Address>> addresses_;  // by rank
  const std::size_t streams_;

  std::mutex mutex_;
  std::deque<Link> links_;  // by rank; the own one stays empty
  bool aborted_ = false;
  Status why_;

  std::vector<bool> ready_;  // engine only
  EventFd wake_;
  EventFd close_event_;
  std::atomic<bool> closing_ = false;
  Acceptor acceptor_;  // acceptor thread only
  std::thread accept_thread_;
};

}  // namespace

std::shared_ptr<Links> make_links(const World& world, const Config& config, TimePoint deadline) {
  AddressBook address_book = tell_where(world, config, deadline);
  return std::make_shared<LazyLinks>(world, config, std::move(address_book));
}

}  // namespace hora::tcp
