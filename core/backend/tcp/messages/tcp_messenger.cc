// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/tcp_messenger.h"

#include "core/backend/tcp/messages/dialer.h"
#include "core/backend/tcp/messages/message_inlet.h"
#include "core/backend/tcp/messages/message_outlet.h"
#include "core/base/event_fd.h"
#include "core/base/thread.h"
#include "core/comm/control.h"
#include "core/comm/delivery.h"
#include "core/comm/leavers.h"
#include "core/comm/matching.h"
#include "core/join/acceptor.h"
#include "core/join/address_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

namespace hora::tcp {
namespace {

constexpr int kMostFrames = 256;  // of one rank at a time

/// A message that nobody has asked for yet.
struct Arrival {
  std::uint64_t announced = 0;  // its number; 0: it is here
  std::shared_ptr<std::byte> elements;
};

/// How a connection ended.
struct Break {
  TimePoint when;
  Status why;
  bool told = false;  // to all that depended on it
};

/// Messages from this rank to another go over the socket that is opened here. Those from there go over the
/// socket that is opened there. message_frame.h has the frames on them.
///
/// Threads. One I/O thread opens sockets, lets other ranks in, reads all sockets and writes the bytes that
/// could not be written at once. It alone writes into the memory of a receive whose elements come by
/// themselves. Threads that send or receive put their wish into the matching or an outlet under `mutex_`, and
/// write as much as the socket takes at once. A finished operation is told, and `memory_for` called, after
/// `mutex_` has been given back. A message or a receive belongs to the container that it is in, and to the
/// thread that has taken it out. So each ends once. The event fd rings after something was put there that the
/// I/O thread has to see. That thread looks at everything after it has silenced the event fd.
///
/// Nothing waits but the I/O thread, in poll(). It reads whatever comes, because elements that come without
/// having been asked for are bounded by credit, and all others have their memory. So no rank is ever held up
/// by one that does not receive, and no ring of full sockets can form.
///
/// A connection that breaks may be the end of its rank, of which control will tell in its own words (abort).
/// So operations that depend on the connection fail only when control has had time to tell. This rank may
/// have had no descriptors to let another rank in. Operations that wait for that rank fail when the time to
/// connect (HORA_START_TIMEOUT) has passed, and again each time that it does.
class TcpMessenger final : public Messenger {
 public:
  TcpMessenger(const World& world, const Config& config, AddressBook address_book)
      : rank_(world.membership.rank),
        ranks_(world.membership.size),
        encryption_(config.encryption),
        time_to_connect_(config.start_timeout),
        dialer_(world, config, std::move(address_book.addresses)),
        acceptor_(std::move(address_book.listener), world.membership.secret, world.membership.rank),
        leavers_(world.membership.rank, world.membership.size),
        io_(start_thread("moves messages", [this] { run_io(); })) {}
  ~TcpMessenger() override {
    abort({Code::aborted, "the job has ended"});
    io_.join();
  }
  TcpMessenger(const TcpMessenger&) = delete;
  TcpMessenger& operator=(const TcpMessenger&) = delete;

  void send(Outgoing message) override {
    message.envelope.source = rank_;
    if (message.to == rank_) return send_to_self(message);
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      throw_if_ended();
      Out& out = outs_.try_emplace(message.to, message.to).first->second;
      auto lost = leavers_.loss(message.to);
      if (!lost && out.broken && out.broken->told) lost = out.broken->why;
      if (lost) {
        calls.emplace_back([done = std::move(message.done), why = *lost] { done(why); });
      } else {
        out.outlet.send(std::move(message), calls);
        if (out.outlet.has_more()) event_fd_.ring();
      }
    }
    run(calls);
  }

  void receive(Incoming wanted) override {
    std::optional<Matching<Arrival>::Kept> found;
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      throw_if_aborted();
      found = matching_.take(wanted.source, wanted.tag);
      if (!found) {
        const auto lost = loss(wanted.source);
        if (!lost) return matching_.wait(std::move(wanted));
        calls.emplace_back([&, why = *lost] { wanted.done(why, nullptr); });
      } else if (found->arrival.announced == 0) {
        give_credit(found->envelope, calls);
        calls.emplace_back([&] { deliver(wanted, found->envelope, found->arrival.elements.get()); });
      } else {
        calls.emplace_back([&] { request(found->envelope, found->arrival.announced, std::move(wanted)); });
      }
    }
    run(calls);
  }

  std::optional<Envelope> probe(int source, int tag) override {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    const Envelope* found = matching_.probe(source, tag);
    if (found != nullptr) return *found;
    if (const auto lost = leavers_.loss(source); lost && source != kAnySource) throw Error(*lost);
    return std::nullopt;
  }

  void leave(std::function<void()> done) override {
    // Dropped by the outlet of each receiver, the inlet of each sender, and here.
    const std::shared_ptr<void> told(static_cast<void*>(nullptr),
                                     [done = std::move(done)](void*) { done(); });
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      leaves_ = true;
      if (aborted_) return;
      for (auto& [peer, out] : outs_) {
        if (!out.broken) out.outlet.say_last(told, calls);
      }
      for (auto& [peer, in] : ins_) {
        if (!in.broken) in.inlet.say_last(told, calls);
      }
    }
    event_fd_.ring();
    run(calls);
  }

  void hear_leave(int rank) override {
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      if (aborted_) return;
      leavers_.add(rank);
      if (const auto out = outs_.find(rank); out != outs_.end())
        out->second.outlet.take_back(*leavers_.loss(rank), calls);
      for (const int source : {rank, kAnySource}) {
        const auto lost = leavers_.loss(source);
        if (lost) fail(matching_.give_up(wants_from(source)), *lost, calls);
      }
    }
    run(calls);
  }

  void abort(const Status& why) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) aborted_ = why;
    }
    event_fd_.ring();
  }

 private:
  struct Out {
    explicit Out(int to) : outlet(to) {}
    MessageOutlet outlet;
    std::optional<Break> broken;
  };
  struct In {
    In(int from, DataSocket socket, SessionKeys heads, MessageReader::Destination destination)
        : inlet(std::move(socket), std::move(heads.sends)), reader(from, std::move(destination)) {
      reader.open(std::move(heads.receives));
    }
    MessageInlet inlet;
    std::optional<Break> broken;
    MessageReader reader;   // I/O thread only, without the mutex
    bool has_more = false;  // as the reader
  };

  // --- any thread ---

  void send_to_self(const Outgoing& message) {
    const Envelope& envelope = message.envelope;
    auto wanted = claim(envelope);
    if (!wanted) {
      auto copy = copy_of(message.data, content_bytes(envelope));
      const std::lock_guard lock(mutex_);
      throw_if_ended();
      wanted = matching_.claim(envelope);
      if (!wanted) matching_.keep(envelope, {0, std::move(copy)});
    }
    if (wanted) deliver(*wanted, envelope, message.data);
    message.done({});
  }

  std::optional<Incoming> claim(const Envelope& envelope) {
    const std::lock_guard lock(mutex_);
    throw_if_ended();
    return matching_.claim(envelope);
  }

  /// Asks for the elements of an announced message, once there is memory for them.
  void request(const Envelope& envelope, std::uint64_t number, Incoming wanted) {
    std::byte* memory = nullptr;
    Status failed;
    try {
      memory = static_cast<std::byte*>(wanted.memory_for(envelope));
    } catch (const Error& error) {
      failed = error.status();
    }
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      In& in = ins_.at(envelope.source);
      const Status over = end_of(in);
      if (!failed.ok() && over.ok()) in.inlet.refuse(number, calls);
      if (failed.ok()) failed = over;
      if (failed.ok()) {
        in.inlet.request(number, {envelope, memory, std::move(wanted)}, calls);
      } else {
        calls.emplace_back([&, failed] { wanted.done(failed, &envelope); });
      }
      if (in.inlet.has_more()) event_fd_.ring();
    }
    run(calls);
  }

  // --- any thread, under mutex_ ---

  void throw_if_ended() const {
    throw_if_aborted();
    if (leaves_) throw Error(kHasLeft);
  }

  /// Why nothing can come from there any more; nothing: it can.
  [[nodiscard]] std::optional<Status> loss(int source) const {
    if (auto lost = leavers_.loss(source)) return lost;
    const auto in = ins_.find(source);
    if (in == ins_.end() || !in->second.broken || !in->second.broken->told) return std::nullopt;
    return in->second.broken->why;
  }

  void throw_if_aborted() const {
    if (aborted_) throw Error(*aborted_);
  }

  /// Why nothing more can be asked for there; ok: something can.
  [[nodiscard]] Status end_of(const In& in) const {
    if (aborted_) return *aborted_;
    return in.broken && in.broken->told ? in.broken->why : Status{};
  }

  void give_credit(const Envelope& envelope, Calls& calls) {
    if (envelope.source == rank_) return;
    MessageInlet& inlet = ins_.at(envelope.source).inlet;
    inlet.give_credit(content_bytes(envelope), calls);
    if (inlet.has_more()) event_fd_.ring();
  }

  // --- the I/O thread ---

  void run_io() {
    while (true) {
      wait();
      Calls calls;
      const bool going = go_on(calls);
      run(calls);
      if (!going) return;
      for (In* in : ready_) listen(*in);
      call();
      let_in();
    }
  }

  /// Waits for something to do, and for readers that have something.
  void wait() {
    std::vector<pollfd> events{event_fd_.event()};
    std::vector<In*> ins;
    TimePoint until = std::min(acceptor_.next(), dialer_.next());
    {
      const std::lock_guard lock(mutex_);
      for (auto& [peer, in] : ins_) {
        if (in.has_more) until = TimePoint::min();
        ins.push_back(&in);
        events.push_back(in.broken ? pollfd{-1, 0, 0} : in.inlet.event());
      }
      for (auto& [peer, out] : outs_) {
        if (out.outlet.is_open() && !out.broken) events.push_back(out.outlet.event());
      }
      until = std::min(until, next_break());
    }
    dialer_.append_to(events);
    acceptor_.append_to(events);
    ::poll(events.data(), events.size(), milliseconds_until(until));
    event_fd_.silence();
    ready_.clear();
    for (std::size_t i = 0; i < ins.size(); ++i) {
      if (events[i + 1].revents != 0 || ins[i]->has_more) ready_.push_back(ins[i]);
    }
  }

  TimePoint next_break() const {
    TimePoint next = TimePoint::max();
    const auto look = [&next](const auto& peers) {
      for (const auto& [peer, one] : peers) {
        if (one.broken && !one.broken->told) next = std::min(next, one.broken->when + kUntilControlTells);
      }
    };
    look(outs_);
    look(ins_);
    return next;
  }

  /// Everything that is done under the mutex. Whether there is more to come.
  bool go_on(Calls& calls) {
    const std::lock_guard lock(mutex_);
    if (aborted_) {
      end(*aborted_, calls);
      return false;
    }
    const TimePoint now = Clock::now();
    for (auto& [peer, out] : outs_) {
      if (!out.outlet.is_open() || out.broken) continue;
      try {
        out.outlet.turn(calls);
      } catch (const Error& error) {
        out.broken = broken(peer, error);
        out.outlet.shut_down();
      }
    }
    for (auto& [peer, in] : ins_) {
      if (!in.broken) in.inlet.flush(calls);
    }
    tell_what_broke(now, calls);
    tell_of_shortage(now, calls);
    return true;
  }

  void tell_what_broke(TimePoint now, Calls& calls) {
    const auto is_due = [now](const std::optional<Break>& broken) {
      return broken && !broken->told && now >= broken->when + kUntilControlTells;
    };
    for (auto& [peer, out] : outs_) {
      if (!is_due(out.broken)) continue;
      out.broken->told = true;
      out.outlet.fail(out.broken->why, calls);
    }
    for (auto& [peer, in] : ins_) {
      if (!is_due(in.broken)) continue;
      in.broken->told = true;
      in.inlet.fail(in.broken->why, calls);
      fail(matching_.give_up(wants_from(peer)), in.broken->why, calls);
    }
  }

  void tell_of_shortage(TimePoint now, Calls& calls) {
    const auto& shortage = acceptor_.shortage();
    if (!shortage || now < std::max(shortage->since, told_of_shortage_) + time_to_connect_) return;
    told_of_shortage_ = now;
    const Status why{
        Code::unavailable,
        fmt::format("rank {} could not accept connections of other ranks for {:g} s: {}; raise the "
                    "limit, or close files and sockets",
                    rank_, std::chrono::duration<double>(time_to_connect_).count(), shortage->why)};
    const bool all_are_in = ins_.size() + 1 == static_cast<std::size_t>(ranks_);
    const auto is_lost = [&](const Incoming& wanted) {
      return wanted.source == kAnySource ? !all_are_in
                                         : wanted.source != rank_ && !ins_.contains(wanted.source);
    };
    fail(matching_.give_up(is_lost), why, calls);
  }

  static Break broken(int peer, const Error& error) {
    return {Clock::now(),
            {Code::aborted,
             fmt::format("the connection for messages with rank {} broke: {}", peer, error.what())}};
  }

  void end(const Status& why, Calls& calls) {
    for (auto& [peer, out] : outs_) {
      out.outlet.fail(why, calls);
      out.outlet.shut_down();
    }
    for (auto& [peer, in] : ins_) {
      in.inlet.fail(why, calls);
      in.inlet.shut_down();
    }
    fail(matching_.give_up(any_receive), why, calls);
  }

  /// Opens the sockets that outlets want.
  void call() {
    {
      const std::lock_guard lock(mutex_);
      for (auto& [peer, out] : outs_) {
        if (!out.outlet.is_open() && out.outlet.has_more()) dialer_.want(peer);
      }
    }
    Calls calls;
    for (auto& [peer, connection, failed] : dialer_.serve(Clock::now())) {
      const std::lock_guard lock(mutex_);
      MessageOutlet& outlet = outs_.at(peer).outlet;
      if (connection) {
        DataSocket socket = make_data_socket(*connection, encryption_);
        outlet.open(std::move(socket), std::move(connection->session), calls);
      } else {
        outlet.fail(failed, calls);
      }
    }
    run(calls);
  }

  void let_in() {
    for (auto& [connection, hello, member] : acceptor_.serve(Clock::now())) {
      const int from = hello.rank;
      if (hello.role != Role::message || hello.size != ranks_ || from == rank_) continue;
      const std::lock_guard lock(mutex_);
      const auto destination = [this, from](std::uint64_t number) {
        const std::lock_guard guard(mutex_);
        return ins_.at(from).inlet.destination(number);
      };
      if (ins_.contains(from)) continue;
      DataSocket socket = make_data_socket(connection, encryption_);
      ins_.try_emplace(from, from, std::move(socket), std::move(connection.session), destination);
    }
  }

  /// Reads what is there, a bounded number of frames at a time, so that no sender keeps the others waiting.
  void listen(In& in) {
    if (in.broken) return;
    try {
      in.has_more = false;
      for (int frames = 0; frames < kMostFrames; ++frames) {
        const auto received = in.reader.next(in.inlet.socket());
        if (!received) {
          in.has_more = in.inlet.socket().holds_some();
          return;
        }
        hear(in, *received);
      }
      in.has_more = true;
    } catch (const Error& error) {
      const std::lock_guard lock(mutex_);
      in.broken = broken(in.reader.from(), error);
      in.inlet.shut_down();
    }
  }

  void hear(In& in, const MessageReader::Received& received) {
    switch (received.frame.kind) {
      case MessageFrameKind::whole: return hear_whole(in, received.frame.envelope, received.elements);
      case MessageFrameKind::announcement:
        return hear_announcement(in, received.frame.envelope, received.frame.number);
      case MessageFrameKind::last: return hear_last(in);
      case MessageFrameKind::last_answer_heard: return hear_last_was_heard(in);
      default: return finish(in, received.frame.number);
    }
  }

  void hear_whole(In& in, const Envelope& envelope, std::span<const std::byte> elements) {
    std::optional<Incoming> wanted;
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      in.inlet.hear_whole(elements.size());
      wanted = matching_.claim(envelope);
      if (wanted) {
        in.inlet.give_credit(elements.size(), calls);
      } else {
        matching_.keep(envelope, {0, copy_of(elements.data(), elements.size())});
      }
    }
    run(calls);
    if (wanted) deliver(*wanted, envelope, elements.data());
  }

  void hear_announcement(In& in, const Envelope& envelope, std::uint64_t number) {
    std::optional<Incoming> wanted;
    {
      const std::lock_guard lock(mutex_);
      in.inlet.hear_announcement(number);
      wanted = matching_.claim(envelope);
      if (!wanted) matching_.keep(envelope, {number, {}});
    }
    if (wanted) request(envelope, number, *std::move(wanted));
  }

  void hear_last(In& in) {
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      in.inlet.hear_last(calls);
    }
    run(calls);
  }

  void hear_last_was_heard(In& in) {
    Calls calls;
    {
      const std::lock_guard lock(mutex_);
      in.inlet.hear_last_was_heard(calls);
    }
    run(calls);
  }

  void finish(In& in, std::uint64_t number) {
    Reception reception;
    {
      const std::lock_guard lock(mutex_);
      reception = in.inlet.finish(number);
    }
    reception.wanted.done({}, &reception.envelope);
  }

  const int rank_;
  const int ranks_;
  const std::string encryption_;
  const std::chrono::milliseconds time_to_connect_;

  // I/O thread only
  Dialer dialer_;
  Acceptor acceptor_;
  std::vector<In*> ready_;
  TimePoint told_of_shortage_;

  std::mutex mutex_;
  std::map<int, Out> outs_;  // by rank; only grow
  std::map<int, In> ins_;
  Matching<Arrival> matching_;
  Leavers leavers_;
  bool leaves_ = false;  // this rank
  std::optional<Status> aborted_;

  EventFd event_fd_;
  std::thread io_;
};

}  // namespace

std::unique_ptr<Messenger> connect_tcp_messenger(const World& world, const Config& config,
                                                 TimePoint deadline) {
  return std::make_unique<TcpMessenger>(world, config, tell_where(world, config, deadline));
}

}  // namespace hora::tcp
