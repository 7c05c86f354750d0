// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/device/stream.h"

#include <hora/status.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace hora {

/// A batch whose work has been given to a GPU, and is under way there.
struct Flight {
  std::string what;                            ///< "allreduce of 'layer1.weight' and 3 more tensors"
  std::vector<std::shared_ptr<Event>> inputs;  ///< when these are reached, the work can begin
  std::shared_ptr<Event> end;                  ///< when this is, it is done
  /// Gives the tensors back; called once, must not throw. `ended`: the GPU does not use them any more; else
  /// what holds their memory must never go.
  std::function<void(const Status& status, bool ended)> finish;
};

/// The calls that a Completer makes on its thread. They must not block. A value.
struct FlightNotices {
  std::function<void(const Status&)> failed;  ///< of a flight that takes too long, or a GPU that fails
  std::function<void()> ended{};              ///< a flight has ended, and is no longer counted; may be empty
};

/// Sees to what is under way on the GPU, so that the engine need not wait for it: a thread that looks whether
/// the first flight has ended, and then the next, as they end in the order in which they began. It sleeps
/// between two looks, an eighth of the time that it has waited for, from 20 µs to 1 ms; without flights until
/// there is one.
///
/// One mutex guards the flights. The engine adds to their end, the thread alone takes from their front, and
/// without the mutex calls an Event and `finish`; so neither waits for the other, but the engine when there
/// are `most` flights: a GPU's queue is bounded, and a thread that fills it hangs in the driver where nothing
/// can wake it. That wait ends with a flight, or with `fail`, which another thread or this one brings about.
///
/// A flight that does not end within `timeout` after its inputs were there, and a GPU that fails, are told to
/// `failed` of the notices, once for each flight. *Thread-safe*, but only one thread adds.
class Completer {
 public:
  Completer(std::chrono::milliseconds timeout, FlightNotices notices);
  /// Nothing may be under way.
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  /// Blocks while too much is under way; then `add` does not throw. Throws Error with the status of
  /// `interrupt` or `fail`.
  void make_room();
  void add(Flight flight);
  [[nodiscard]] std::size_t flights() const;
  /// Blocks until nothing is under way, or the status of a failure.
  Status drain();
  /// Ends all waiting in `make_room` and `drain` with this status. The first one counts.
  void interrupt(const Status& why);
  /// From now on everything ends with this status, also what has ended on the GPU and was not seen to; and as
  /// `interrupt`.
  void fail(const Status& why);
  /// After `fail`: blocks until all has ended: what does so on the GPU within `timeout` then, so that it
  /// touches no tensor after it was given back, the rest after that. False: there was a rest, and what it
  /// holds is kept for ever.
  bool end(std::chrono::milliseconds timeout);

 private:
  struct Course;  // a flight, and how it goes
  void start();
  void run();
  void see_to_first(std::unique_lock<std::mutex>& lock);
  void give_up(std::unique_lock<std::mutex>& lock);

  std::chrono::milliseconds timeout_;
  FlightNotices notices_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under the mutex:
  std::deque<std::shared_ptr<Course>> flights_;
  std::optional<Status> interrupted_;
  std::optional<Status> failed_;
  std::optional<TimePoint> give_up_at_;
  bool gave_up_ = false;
  bool ending_ = false;
  std::thread thread_;  // last
};

}  // namespace hora
