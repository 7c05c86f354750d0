// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/tcp_messenger.h"

#include "core/backend/tcp/approach.h"
#include "core/backend/tcp/directory.h"
#include "core/backend/tcp/gaps.h"
#include "core/backend/tcp/message_frame.h"
#include "core/comm/matching.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace hora {
namespace {

constexpr std::size_t kMostWhole = 64 * 1024;  // bytes of a message that is sent before it is asked for
constexpr std::size_t kMostAhead = 4 << 20;    // of all such that a receiver has not taken
constexpr std::size_t kCreditStep = 256 * 1024;
constexpr std::chrono::seconds kPatience{1};  // until control says whose end it is that closed a socket

/// A message that came before it was asked for.
struct Kept {
  std::uint64_t announced = 0;       ///< its number; 0: it has come as a whole
  std::shared_ptr<std::byte> bytes;  ///< of a whole one
  bool complete = true;
  std::optional<Incoming> claim;  ///< who takes it as soon as it is complete
};
using KeptPtr = std::shared_ptr<Kept>;

/// Bytes to be written: the head of a frame, and elements.
struct Chunk {
  Bytes head;
  std::span<const std::byte> elements;
  std::shared_ptr<std::byte> copy;               ///< owns the elements, unless they are lent
  std::function<void(const Status&)> done = {};  ///< of the message, when its elements are written
};

/// A message on its way into the memory of who waits for it.
struct Reception {
  Envelope envelope;
  std::byte* memory = nullptr;  ///< nullptr: nobody wants it any more
  std::optional<Incoming> wanted;
  KeptPtr kept;        ///< or it is kept here
  bool whole = false;  ///< it came without having been asked for
};

/// One socket between two ranks. Messages travel one way on it, from the rank that has opened it.
struct Wire {
  int peer = 0;
  bool opened_here = false;
  Descriptor socket;
  // Of the I/O thread:
  Bytes head;
  std::size_t head_wanted = kFrameLengthBytes;
  bool length_known = false;
  std::optional<Reception> reception;  // whose elements are being read
  std::size_t read = 0;                // of them
  // Under the mutex:
  std::deque<Chunk> out;
  std::size_t written = 0;                      // of out.front()
  std::size_t ahead = 0;                        // bytes of whole messages that the receiver has not taken
  std::size_t credit = 0;                       // bytes that have been taken, and the sender does not know it
  std::map<std::uint64_t, Outgoing> announced;  // opened here: messages that wait for a request
  std::map<std::uint64_t, Reception> requested;  // opened there: messages whose elements will come
  std::optional<TimePoint> closed;
};

/// What has to be told to users, outside of the mutex.
using News = std::vector<std::function<void()>>;

/// Threads. One I/O thread reads all sockets, lets ranks in at the lobby, and writes what senders could not
/// write at once; it alone writes into the memory of a receive. Threads that send or receive put their wish
/// into the matching or into the queue of a socket under `mutex_`, and write to the socket as far as it takes
/// bytes at once. `place` and `done` of users run without `mutex_`. A message is out of the matching before
/// `place` is called, so it belongs to one thread from then on.
///
/// Nothing waits for anything but sockets: no thread holds `mutex_` while it blocks, and `dialling_`, under
/// which a socket is opened, is taken before it. The bytes that a sender may have under way without having
/// been asked for are bounded by what receivers have taken, so a rank that never receives holds up nobody.
///
/// A socket that closes may be the end of its rank, of which control will tell; so what depends on it fails
/// only after a second, if by then nobody has called `abort`.
class TcpMessenger final : public Messenger {
 public:
  TcpMessenger(int rank, int ranks, Lobby lobby, Dial dial)
      : rank_(rank),
        ranks_(ranks),
        lobby_(std::move(lobby)),
        dial_(std::move(dial)),
        dialling_(static_cast<std::size_t>(ranks)),
        kick_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        io_([this] { run(); }) {}
  ~TcpMessenger() override {
    abort({Code::aborted, "the job has ended"});
    io_.join();
  }
  TcpMessenger(const TcpMessenger&) = delete;
  TcpMessenger& operator=(const TcpMessenger&) = delete;

  void send(Outgoing message) override {
    if (message.to == rank_) return send_to_self(std::move(message));
    Wire& wire = wire_to(message.to);
    const std::size_t bytes = content_bytes(message.envelope);
    const bool whole = bytes <= kMostWhole;
    Chunk chunk;
    if (whole) chunk = copied(message, bytes);
    bool sent_whole = false;
    {
      const std::lock_guard lock(mutex_);
      throw_if_aborted();
      if (wire.closed) throw Error(Code::aborted, gone(message.to));
      sent_whole = whole && wire.ahead + bytes <= kMostAhead;
      if (sent_whole) {
        wire.ahead += bytes;
      } else {
        chunk = {};
        chunk.head = encode({MessageFrameKind::announcement, ++number_, message.envelope});
        wire.announced.emplace(number_, message);
      }
      write(wire, std::move(chunk));
    }
    if (sent_whole) message.done({});
  }

  void receive(Incoming wanted) override {
    News news;
    {
      const std::lock_guard lock(mutex_);
      throw_if_aborted();
      auto found = matching_.take(wanted.from, wanted.tag);
      if (!found) {
        if (wanted.from != kAnySource && has_left(wanted.from)) throw Error(Code::aborted, gone(wanted.from));
        return matching_.wait(std::move(wanted));
      }
      KeptPtr kept = found->arrival;
      if (kept->announced == 0 && !kept->complete) {
        kept->claim = std::move(wanted);
        return;
      }
      news.push_back([this, kept, envelope = found->envelope, wanted = std::move(wanted)]() mutable {
        hand_over(envelope, std::move(wanted), kept);
      });
    }
    tell(news);
  }

  std::optional<Envelope> probe(int from, int tag) override {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    const Envelope* found = matching_.probe(from, tag);
    return found != nullptr ? std::optional(*found) : std::nullopt;
  }

  void abort(const Status& why) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (!aborted_) aborted_ = why;
    }
    kick();
  }

 private:
  // --- any thread ---

  static void tell(News& news) {
    for (auto& word : news) word();
  }

  void kick() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(kick_.fd(), &one, sizeof one);
  }

  static std::string gone(int rank) { return fmt::format("rank {} has left the job", rank); }

  static Chunk copied(const Outgoing& message, std::size_t bytes) {
    Chunk chunk;
    chunk.copy = std::shared_ptr<std::byte>(new std::byte[bytes + 1], std::default_delete<std::byte[]>());
    if (bytes > 0) std::memcpy(chunk.copy.get(), message.data, bytes);
    chunk.elements = {chunk.copy.get(), bytes};
    chunk.head = encode({MessageFrameKind::whole, 0, message.envelope});
    return chunk;
  }

  Wire& wire_to(int peer) {
    const std::lock_guard dialling(dialling_[static_cast<std::size_t>(peer)]);
    {
      const std::lock_guard lock(mutex_);
      throw_if_aborted();
      for (auto& wire : wires_) {
        if (wire->opened_here && wire->peer == peer) return *wire;
      }
    }
    auto wire = std::make_unique<Wire>();
    wire->peer = peer;
    wire->opened_here = true;
    wire->socket = dial_(peer);
    const std::lock_guard lock(mutex_);
    wires_.push_back(std::move(wire));
    kick();
    return *wires_.back();
  }

  void send_to_self(Outgoing message) {
    const std::size_t bytes = content_bytes(message.envelope);
    std::optional<Incoming> wanted;
    {
      const std::lock_guard lock(mutex_);
      throw_if_aborted();
      wanted = matching_.claim(message.envelope);
      if (!wanted) {
        auto kept = std::make_shared<Kept>();
        kept->bytes = copied(message, bytes).copy;
        matching_.keep(message.envelope, std::move(kept));
      }
    }
    if (wanted) deliver(message.envelope, *wanted, static_cast<const std::byte*>(message.data), bytes);
    message.done({});
  }

  /// A whole message goes to who waits for it.
  static void deliver(const Envelope& envelope, const Incoming& wanted, const std::byte* elements,
                      std::size_t bytes) {
    try {
      void* memory = wanted.place(envelope);
      if (bytes > 0) std::memcpy(memory, elements, bytes);
    } catch (const Error& error) {
      return wanted.done(error.status(), envelope);
    }
    wanted.done({}, envelope);
  }

  /// A message that was kept goes to who has asked for it: at once, or by asking for its elements.
  void hand_over(const Envelope& envelope, Incoming wanted, const KeptPtr& kept) {
    if (kept->announced != 0) return request(envelope, kept->announced, std::move(wanted));
    deliver(envelope, wanted, kept->bytes.get(), content_bytes(envelope));
    if (envelope.source == rank_) return;
    const std::lock_guard lock(mutex_);
    if (Wire* wire = wire_from(envelope.source)) give_credit(*wire, content_bytes(envelope));
  }

  /// Asks for the elements of an announced message, once there is memory for them.
  void request(const Envelope& envelope, std::uint64_t number, Incoming wanted) {
    std::byte* memory = nullptr;
    Status refused;
    try {
      memory = static_cast<std::byte*>(wanted.place(envelope));
    } catch (const Error& error) {
      refused = error.status();
    }
    Status failed;
    {
      const std::lock_guard lock(mutex_);
      Wire* wire = wire_from(envelope.source);
      if (aborted_) {
        failed = *aborted_;
      } else if (wire == nullptr || wire->closed) {
        failed = {Code::aborted, gone(envelope.source)};
      } else if (!refused.ok()) {
        failed = refused;
        write(*wire, {encode({MessageFrameKind::refusal, number}), {}, {}});
      } else {
        wire->requested.emplace(number, Reception{envelope, memory, wanted, nullptr, false});
        write(*wire, {encode({MessageFrameKind::request, number}), {}, {}});
      }
    }
    if (!failed.ok()) wanted.done(failed, envelope);
  }

  // --- any thread, under mutex_ ---

  void throw_if_aborted() const {
    if (aborted_) throw Error(*aborted_);
  }

  [[nodiscard]] Wire* wire_from(int peer) {
    for (auto& wire : wires_) {
      if (!wire->opened_here && wire->peer == peer) return wire.get();
    }
    return nullptr;
  }

  [[nodiscard]] bool has_left(int peer) {
    const Wire* wire = wire_from(peer);
    return wire != nullptr && wire->closed;
  }

  void give_credit(Wire& wire, std::size_t bytes) {
    wire.credit += bytes;
    if (wire.credit < kCreditStep) return;
    write(wire, {encode({MessageFrameKind::credit, std::exchange(wire.credit, 0)}), {}, {}});
  }

  /// At once as far as that goes; the I/O thread writes the rest.
  void write(Wire& wire, Chunk chunk) {
    if (wire.closed) return;
    wire.out.push_back(std::move(chunk));
    if (wire.out.size() > 1) return;
    flush(wire);
    if (!wire.out.empty()) kick();
  }

  /// Writes what goes without waiting. What is done is told by the I/O thread.
  void flush(Wire& wire) {
    while (!wire.out.empty()) {
      Chunk& chunk = wire.out.front();
      const std::size_t head_left = chunk.head.size() - std::min(wire.written, chunk.head.size());
      const std::size_t elements_at = wire.written - (chunk.head.size() - head_left);
      std::array<iovec, 2> pieces{{{chunk.head.data() + (chunk.head.size() - head_left), head_left},
                                   {const_cast<std::byte*>(chunk.elements.data()) + elements_at,
                                    chunk.elements.size() - elements_at}}};
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = pieces.size();
      const auto sent = ::sendmsg(wire.socket.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        if (errno != EAGAIN) wire.closed = wire.closed.value_or(Clock::now());
        return;
      }
      wire.written += static_cast<std::size_t>(sent);
      if (wire.written < chunk.head.size() + chunk.elements.size()) continue;
      if (chunk.done) {
        written_.push_back(std::move(chunk.done));
        kick();
      }
      wire.out.pop_front();
      wire.written = 0;
    }
  }

  // --- the I/O thread ---

  void run() {
    for (bool going = true; going;) {
      wait();
      News news;
      {
        const std::lock_guard lock(mutex_);
        for (auto& wire : wires_) {
          if (!wire->closed) flush(*wire);
        }
        for (auto& done : std::exchange(written_, {})) news.push_back([done = std::move(done)] { done({}); });
        fail_what_closed(news);
        if (aborted_) {
          fail_all(*aborted_, news);
          going = false;
        }
      }
      tell(news);
      if (!going) return;
      for (Wire* wire : all_wires()) read(*wire);
      let_in();
    }
  }

  std::vector<Wire*> all_wires() {
    const std::lock_guard lock(mutex_);
    std::vector<Wire*> all;
    for (auto& wire : wires_) all.push_back(wire.get());
    return all;
  }

  void wait() {
    std::vector<pollfd> events{{kick_.fd(), POLLIN, 0}};
    TimePoint next = lobby_.next();
    {
      const std::lock_guard lock(mutex_);
      if (aborted_ || !written_.empty()) return;
      for (const auto& wire : wires_) {
        if (wire->closed) {
          if (!is_settled(*wire)) next = std::min(next, *wire->closed + kPatience);
          continue;
        }
        events.push_back(
            {wire->socket.fd(), static_cast<short>(POLLIN | (wire->out.empty() ? 0 : POLLOUT)), 0});
      }
    }
    lobby_.append_to(events);
    ::poll(events.data(), events.size(), milliseconds_until(next));
    std::uint64_t kicks = 0;
    [[maybe_unused]] const auto drained = ::read(kick_.fd(), &kicks, sizeof kicks);
  }

  void let_in() {
    for (auto& arrival : lobby_.serve(Clock::now())) {
      if (arrival.hello.role != Role::message || arrival.hello.size != ranks_) continue;
      auto wire = std::make_unique<Wire>();
      wire->peer = arrival.hello.rank;
      wire->socket = std::move(arrival.socket);
      const std::lock_guard lock(mutex_);
      if (wire_from(wire->peer) == nullptr) wires_.push_back(std::move(wire));
    }
  }

  /// Reads what is there, a bounded number of pieces at a time, so that no sender keeps the others waiting.
  void read(Wire& wire) {
    constexpr int kPieces = 16;
    try {
      for (int piece = 0; piece < kPieces && !wire.closed; ++piece) {
        if (!(wire.reception ? read_elements(wire) : read_head(wire))) return;
      }
    } catch (const Error&) {
      close(wire);  // it sends what no rank sends
    }
  }

  /// Whether there may be more to read.
  bool read_into(Wire& wire, std::span<std::byte> memory, std::size_t& got) {
    const auto bytes = ::recv(wire.socket.fd(), memory.data(), memory.size(), MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (bytes <= 0) {
      close(wire);
      return false;
    }
    got += static_cast<std::size_t>(bytes);
    return true;
  }

  void close(Wire& wire) {
    const std::lock_guard lock(mutex_);
    wire.closed = wire.closed.value_or(Clock::now());
  }

  bool read_head(Wire& wire) {
    std::size_t have = wire.head.size();
    wire.head.resize(wire.head_wanted);
    const bool more = read_into(wire, std::span(wire.head).subspan(have), have);
    wire.head.resize(have);
    if (!more || have < wire.head_wanted) return more;
    if (!wire.length_known) {
      const auto length = static_cast<std::size_t>(wire.head[0]) | static_cast<std::size_t>(wire.head[1])
                                                                       << 8;
      if (length == 0 || length > kMostMessageFrame) throw Error(Code::internal, "bad frame");
      wire.head_wanted += length;
      wire.length_known = true;
      return true;
    }
    const auto frame = decode_message_frame(std::span(wire.head).subspan(kFrameLengthBytes), wire.peer);
    wire.head.clear();
    wire.head_wanted = kFrameLengthBytes;
    wire.length_known = false;
    heed(wire, frame);
    return true;
  }

  void heed(Wire& wire, const MessageFrame& frame) {
    const bool from_sender = frame.kind == MessageFrameKind::whole ||
                             frame.kind == MessageFrameKind::announcement ||
                             frame.kind == MessageFrameKind::content;
    if (from_sender == wire.opened_here) throw Error(Code::internal, "bad frame: from the wrong side");
    switch (frame.kind) {
      case MessageFrameKind::whole: return begin_whole(wire, frame.envelope);
      case MessageFrameKind::announcement: return hear_announcement(frame);
      case MessageFrameKind::content: return begin_content(wire, frame.number);
      case MessageFrameKind::request: return send_content(wire, frame.number);
      case MessageFrameKind::refusal: return drop(wire, frame.number);
      case MessageFrameKind::credit: {
        const std::lock_guard lock(mutex_);
        wire.ahead -= std::min<std::size_t>(wire.ahead, frame.number);
      }
    }
  }

  void begin_whole(Wire& wire, const Envelope& envelope) {
    if (content_bytes(envelope) > kMostWhole) throw Error(Code::internal, "bad frame: too large");
    Reception reception{envelope, nullptr, {}, {}, true};
    {
      const std::lock_guard lock(mutex_);
      reception.wanted = matching_.claim(envelope);
      if (!reception.wanted) {
        reception.kept = std::make_shared<Kept>();
        reception.kept->bytes = std::shared_ptr<std::byte>(new std::byte[content_bytes(envelope) + 1],
                                                           std::default_delete<std::byte[]>());
        reception.kept->complete = false;
        reception.memory = reception.kept->bytes.get();
        matching_.keep(envelope, reception.kept);
      }
    }
    if (reception.wanted) {
      try {
        reception.memory = static_cast<std::byte*>(reception.wanted->place(envelope));
      } catch (const Error& error) {
        reception.wanted->done(error.status(), envelope);
        reception.wanted.reset();
      }
    }
    begin(wire, std::move(reception));
  }

  void hear_announcement(const MessageFrame& frame) {
    std::optional<Incoming> wanted;
    {
      const std::lock_guard lock(mutex_);
      wanted = matching_.claim(frame.envelope);
      if (!wanted) {
        auto kept = std::make_shared<Kept>();
        kept->announced = frame.number;
        matching_.keep(frame.envelope, std::move(kept));
      }
    }
    if (wanted) request(frame.envelope, frame.number, *std::move(wanted));
  }

  void begin_content(Wire& wire, std::uint64_t number) {
    Reception reception;
    {
      const std::lock_guard lock(mutex_);
      auto found = wire.requested.extract(number);
      if (found.empty()) throw Error(Code::internal, "bad frame: nobody has asked for it");
      reception = std::move(found.mapped());
    }
    begin(wire, std::move(reception));
  }

  void begin(Wire& wire, Reception reception) {
    wire.read = 0;
    {
      const std::lock_guard lock(mutex_);
      wire.reception = std::move(reception);
    }
    if (content_bytes(wire.reception->envelope) == 0) end(wire);
  }

  bool read_elements(Wire& wire) {
    const std::size_t all = content_bytes(wire.reception->envelope);
    std::array<std::byte, 64 * 1024> waste;
    const std::span<std::byte> rest = wire.reception->memory != nullptr
                                          ? std::span(wire.reception->memory + wire.read, all - wire.read)
                                          : std::span(waste).first(std::min(waste.size(), all - wire.read));
    const bool more = read_into(wire, rest, wire.read);
    if (wire.read == all) end(wire);
    return more;
  }

  void end(Wire& wire) {
    Reception reception;
    std::optional<Incoming> claim;
    {
      const std::lock_guard lock(mutex_);
      reception = *std::exchange(wire.reception, std::nullopt);
      if (reception.kept) {
        reception.kept->complete = true;
        claim = std::exchange(reception.kept->claim, std::nullopt);
      } else if (reception.whole) {
        give_credit(wire, content_bytes(reception.envelope));
      }
    }
    if (claim) hand_over(reception.envelope, *std::move(claim), reception.kept);
    if (reception.wanted) reception.wanted->done({}, reception.envelope);
  }

  /// The receiver has asked for an announced message.
  void send_content(Wire& wire, std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    auto found = wire.announced.extract(number);
    if (found.empty()) throw Error(Code::internal, "bad frame: nothing of this number was announced");
    Outgoing& message = found.mapped();
    Chunk chunk;
    chunk.head = encode({MessageFrameKind::content, number});
    chunk.elements = {static_cast<const std::byte*>(message.data), content_bytes(message.envelope)};
    chunk.done = std::move(message.done);
    write(wire, std::move(chunk));
  }

  void drop(Wire& wire, std::uint64_t number) {
    std::function<void(const Status&)> done;
    {
      const std::lock_guard lock(mutex_);
      auto found = wire.announced.extract(number);
      if (found.empty()) throw Error(Code::internal, "bad frame: nothing of this number was announced");
      done = std::move(found.mapped().done);
    }
    done({});
  }

  // --- the I/O thread, under mutex_ ---

  /// Whether nothing depends on a closed socket any more.
  static bool is_settled(const Wire& wire) {
    return wire.out.empty() && wire.announced.empty() && wire.requested.empty() && !wire.reception &&
           wire.credit == kSettled;
  }

  void fail_what_closed(News& news) {
    for (auto& wire : wires_) {
      if (!wire->closed || is_settled(*wire) || Clock::now() < *wire->closed + kPatience) continue;
      const Status why{Code::aborted, gone(wire->peer)};
      fail(*wire, why, news);
      if (!wire->opened_here) fail_waiting(matching_.give_up(wire->peer), why, news);
      wire->credit = kSettled;
    }
  }

  void fail(Wire& wire, const Status& why, News& news) {
    for (auto& chunk : std::exchange(wire.out, {})) {
      if (chunk.done) news.push_back([done = std::move(chunk.done), why] { done(why); });
    }
    for (auto& [number, message] : std::exchange(wire.announced, {}))
      news.push_back([done = message.done, why] { done(why); });
    for (auto& [number, reception] : std::exchange(wire.requested, {}))
      news.push_back([reception = reception, why] { reception.wanted->done(why, reception.envelope); });
    auto half = std::exchange(wire.reception, std::nullopt);
    if (!half) return;
    auto& wanted = half->kept ? half->kept->claim : half->wanted;
    if (wanted) news.push_back([wanted = *wanted, half = *half, why] { wanted.done(why, half.envelope); });
  }

  static void fail_waiting(std::list<Incoming> waiting, const Status& why, News& news) {
    for (auto& wanted : waiting) news.push_back([wanted = std::move(wanted), why] { wanted.done(why, {}); });
  }

  void fail_all(const Status& why, News& news) {
    for (auto& wire : wires_) {
      wire->closed = wire->closed.value_or(Clock::now());
      fail(*wire, why, news);
      ::shutdown(wire->socket.fd(), SHUT_RDWR);
    }
    fail_waiting(matching_.give_up(kAnySource), why, news);
  }

  static constexpr std::size_t kSettled = SIZE_MAX;  // in place of a credit: all has been told

  const int rank_;
  const int ranks_;
  Lobby lobby_;  // I/O thread only
  const Dial dial_;
  std::deque<std::mutex> dialling_;  // by rank
  Descriptor kick_;

  std::mutex mutex_;
  std::vector<std::unique_ptr<Wire>> wires_;  // only grows
  Matching<KeptPtr> matching_;
  std::uint64_t number_ = 0;  // of the last announced message
  std::vector<std::function<void(const Status&)>> written_;
  std::optional<Status> aborted_;

  std::thread io_;
};

/// Looks for a rank at all its addresses.
Descriptor find_rank(const Config& config, const std::vector<Member>& members, int rank,
                     const std::vector<Address>& places) {
  const TimePoint deadline = Clock::now() + config.start_timeout;
  Approach approach(config.secret, {Role::message, config.rank, config.size, rank}, places, Clock::now());
  while (true) {
    const TimePoint now = Clock::now();
    if (auto socket = approach.serve(now)) {
      ::fcntl(socket->fd(), F_SETFL, O_NONBLOCK);
      return *std::move(socket);
    }
    if (approach.hopeless(now) || now >= deadline) break;
    std::vector<pollfd> events;
    approach.append_to(events);
    ::poll(events.data(), events.size(), milliseconds_until(std::min(deadline, approach.next())));
  }
  const Gap gap{members[static_cast<std::size_t>(config.rank)], members[static_cast<std::size_t>(rank)],
                approach.failures()};
  throw Error(describe_gaps({&gap, 1}));
}

}  // namespace

std::unique_ptr<Messenger> connect_tcp_messenger(Control& control, const std::vector<Member>& members,
                                                 const Config& config, TimePoint deadline) {
  Directory directory = tell_where(control, members, config, deadline);
  return make_tcp_messenger(config.rank, config.size,
                            Lobby(std::move(directory.listener), config.secret, config.rank),
                            [config, members, places = std::move(directory.places)](int rank) {
                              return find_rank(config, members, rank, places[static_cast<std::size_t>(rank)]);
                            });
}

std::unique_ptr<Messenger> make_tcp_messenger(int rank, int ranks, Lobby lobby, Dial dial) {
  return std::make_unique<TcpMessenger>(rank, ranks, std::move(lobby), std::move(dial));
}

}  // namespace hora
