// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/tcp_messenger.h"

#include "core/backend/tcp/messages/incoming_connections.h"
#include "core/backend/tcp/messages/message_receiver.h"
#include "core/backend/tcp/messages/message_sender.h"
#include "core/base/event_fd.h"
#include "core/base/thread.h"
#include "core/join/address_book.h"

#include <algorithm>
#include <mutex>
#include <thread>

namespace hora::tcp {
namespace {

/// Messages from this rank to another rank go over a socket that this rank opens. Messages from the other
/// rank go over a socket that the other rank opens. message_frame.h has the frames on them. So sending and
/// receiving share only the I/O thread, and the event fd by which other threads wake it.
///
///   part                  under its own mutex                    the I/O thread alone
///   MessageSender         a SendChannel to each rank             the Dialer
///   MessageReceiver       the matching, and a ReceiveChannel
///                         from each rank
///   IncomingConnections                                          the Acceptor, and a MessageReader of each
///                                                                rank
///
/// Threads. A thread that sends or receives puts its message or receive into the part, under the mutex. It
/// writes at once as much as the socket takes. The I/O thread opens sockets, accepts those of other ranks,
/// reads all sockets, and writes the bytes that a socket did not take at once. It alone adds ranks to the
/// receiver, notes that a connection is lost, and writes into the memory of a receive that was announced.
///
/// Each operation ends once. A message or a receive belongs to the container that it is in, and to the thread
/// that has taken it out under the mutex. That thread calls `memory_for`, `taken` and `done` after it has
/// released the mutex.
///
/// Wake-ups. A thread rings the event fd after it has left something to the I/O thread. The I/O thread first
/// silences the event fd, and then looks at everything. So it misses nothing.
///
/// Why no deadlock. No thread holds both mutexes. A thread that holds one neither waits nor calls code of
/// others. Only the I/O thread waits, in poll(), and it reads all that comes. Elements that were not asked
/// for are bounded by credit, and all others have their memory. So a rank that does not receive does not
/// block other ranks, and full sockets never wait for each other in a cycle.
///
/// Failures. When a connection breaks, the operations that depend on it end a while later (ConnectionLoss).
/// This rank may lack the descriptors to accept another rank. Receives that wait for that rank then end after
/// the time to connect (HORA_START_TIMEOUT), and again each time it has passed.
class TcpMessenger final : public Messenger {
 public:
  TcpMessenger(const World& world, const Config& config, AddressBook address_book)
      : rank_(world.membership.rank),
        sender_(world, config, std::move(address_book.addresses), event_fd_),
        receiver_(world.membership.rank, world.membership.size, event_fd_),
        connections_(world, config, std::move(address_book.listener), receiver_),
        io_(start_thread("moves messages", [this] { run_io(); })) {}
  ~TcpMessenger() override {
    abort({Code::aborted, "the job has ended"});
    io_.join();
  }
  TcpMessenger(const TcpMessenger&) = delete;
  TcpMessenger& operator=(const TcpMessenger&) = delete;

  void send(Outgoing message) override {
    message.envelope.source = rank_;
    if (message.to == rank_) return receiver_.send_to_self(message);
    sender_.send(std::move(message));
  }
  void receive(Incoming waiting) override { receiver_.receive(std::move(waiting)); }
  std::optional<Envelope> probe(const Wanted& wanted) override { return receiver_.probe(wanted); }

  void leave(std::function<void()> done) override {
    // Each channel to a receiver or from a sender drops it when it is done, and so does this function. `done`
    // is called when the last one has dropped it.
    const std::shared_ptr<void> told(static_cast<void*>(nullptr),
                                     [done = std::move(done)](void*) { done(); });
    sender_.leave(told);
    receiver_.leave(told);
  }
  void hear_leave(int rank) override {
    sender_.hear_leave(rank);
    receiver_.hear_leave(rank);
  }

  void abort(const Status& why) noexcept override {
    const std::lock_guard lock(aborting_);  // so that both end with the first status
    receiver_.abort(why);
    sender_.abort(why);
  }

 private:
  void run_io() {
    std::vector<pollfd> events;
    do {
      events.assign(1, event_fd_.event());
      connections_.append_to(events);
      receiver_.append_to(events);
      sender_.append_to(events);
      const TimePoint until = std::min({connections_.next(), receiver_.next(), sender_.next()});
      ::poll(events.data(), events.size(), milliseconds_until(until));
      event_fd_.silence();
    } while (turn(std::span<const pollfd>(events).subspan(1)));
  }

  /// Returns false when everything has ended. `abort` ends the sender last: if it has ended, so has the
  /// receiver.
  bool turn(std::span<const pollfd> events) {
    const TimePoint now = Clock::now();
    const bool going = sender_.turn(now);
    if (receiver_.turn(now)) connections_.turn(events);
    return going;
  }

  const int rank_;
  EventFd event_fd_;
  MessageSender sender_;
  MessageReceiver receiver_;
  IncomingConnections connections_;
  std::mutex aborting_;
  std::thread io_;
};

}  // namespace

std::unique_ptr<Messenger> connect_tcp_messenger(const World& world, const Config& config,
                                                 TimePoint deadline) {
  return std::make_unique<TcpMessenger>(world, config, tell_where(world, config, deadline));
}

}  // namespace hora::tcp
