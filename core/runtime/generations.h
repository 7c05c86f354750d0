// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/world.h"
#include "core/elastic/resolve.h"

#include <hora/config.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace hora {

/// A generation of a job: its ranks, connected, and the settings that they have agreed on.
struct Generation {
  World world;
  Config config;
  std::uint64_t committed = 0;  ///< the number of training steps that count
  /// The first rank that has the state of the training, if others do not have it; -1: all have it.
  int state_root = -1;
  bool has_state = false;  ///< this rank has it
  int hot_spares = 0;      ///< so many of the last ranks train on nothing
};

/// The generations of a rank's job, one after the other. One thread at a time takes them; the other functions
/// are thread-safe.
class Generations {
 public:
  virtual ~Generations() = default;

  /// Ends the generation that was taken last, on this rank, for the reason `why`: its operations end, and its
  /// engine stops. Returns the steps of this rank, as they are then. Waits while a generation that was taken
  /// is not in use yet.
  using Stop = std::function<elastic::Report(const Status& why)>;
  /// `stop` runs on a thread of this object's until the object is destroyed, or `finish` is called. Before
  /// the first generation is taken.
  virtual void on_stop(Stop stop) = 0;

  /// Waits until there is a generation to take. The deadline counts for the first one; later ones take as
  /// long as it takes to have enough ranks. Throws Error(timeout), (unavailable), (invalid_argument) if there
  /// will be none.
  virtual void await_next(TimePoint deadline) = 0;
  /// The generation that was waited for; nothing if it has ended since. Does not block.
  virtual std::optional<Generation> take_next() = 0;
  /// Whether another generation may follow the one that was taken last.
  [[nodiscard]] virtual bool has_more() const = 0;
  /// Whether the generation that was taken last is to end with the next step that counts: others want to
  /// join, or ranks are to leave. Rank 0 alone is told.
  [[nodiscard]] virtual bool change_is_due() const = 0;
  /// Asks to leave the job between two steps: `change_is_due` tells when, and the next `await_next` throws.
  virtual void ask_to_leave() = 0;
  /// Says that this process uses a GPU, whose kernels may run on while the process ends: so hrun is to wait
  /// until it has ended.
  virtual void use_gpu() {}
  /// Says that a step has counted in the generation that was taken last. Rank 0 says so.
  virtual void step_counted() {}
  /// Whether this process has left the job in order, as it or somebody else has asked for.
  [[nodiscard]] virtual bool has_left() const = 0;
  /// The session of the generation that was taken last has ended on this rank, as it has on the others or is
  /// about to.
  virtual void session_ended() = 0;
  /// From here on no generation can be taken, and a thread that waits for one is told so.
  virtual void close() = 0;
  /// This rank takes part in no other generation. `well`: it has made the last step of the training, else it
  /// fails. Closes, and waits for a `stop` that runs. After the session has ended. The first call counts.
  virtual void finish(bool well) = 0;
};

}  // namespace hora
