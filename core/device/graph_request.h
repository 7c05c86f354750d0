// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/stream.h"

namespace hora {

/// A request of a captured graph (a CUDA graph): each run of the graph asks the host for an operation, and
/// waits for it. The request is a word in the host's memory, which the GPU reads and writes.
///
/// Protocol. The word is 0 or 1, and 0 at first.
///
///   the graph, in each run            the host                       a stream of Hora's
///   1. waits until the word is 0
///   2. writes 1 ...................>  3. reads 1 (acquire)
///   ... work of the user's            4. submits the operation ....>  the operation's work
///   8. waits until it is 0 <.......   5. calls `release` ..........>  6. writes 0
///                                     7. sees that 6 has been done
///
/// The graph alone writes 1, and only over 0; this needs that runs of the graph follow each other. Streams of
/// Hora's alone write 0, once for each 1, so only over 1: the host calls `release` once between two times
/// that it reads 1 (3). It reads the word again only after 7; a 1 that it reads then is of the next run. Each
/// write of the GPU's comes after all writes of the work before it on its stream, for the host and for other
/// streams. So the operation's work finds the input (2 comes after it), and the graph finds the output (6
/// comes after it).
///
/// No deadlock. 1 and 8 wait for 6, which depends on 3 to 5, and on the work before it on the stream of
/// Hora's. 3 to 5 run on threads that never wait for the user's streams. The stream of Hora's does not wait
/// for them either: a rank with graphs asks for operations only when their inputs are there (TensorTable). 6
/// cannot be queued behind 1 or 8 in a queue of the GPU's. Hora's streams have the highest priority, NCCL's,
/// which they wait for, the default one, and a graph's another one (docs/gpus.md); streams of two priorities
/// share no queue. Calls of the driver that wait for the whole GPU would wait for 1
/// or 8, too. So no thread that is needed for 3 to 6 makes such calls while a graph runs: memory, kernels and
/// connections are there before, because an operation runs in a graph only where one of its kind has run
/// before (Session). Thread-safe.
class GraphRequest {
 public:
  virtual ~GraphRequest() = default;

  /// Whether the graph waits for the operation (3). Takes nanoseconds.
  [[nodiscard]] virtual bool is_made() const = 0;
  /// The work that is put on `stream` from now on, as a part of the same graph, waits for the operation (8).
  /// Throws Error(invalid_argument) if `stream` is not being captured into the same graph.
  virtual void hold_up(void* stream) const = 0;
  /// Lets the graph go on, behind the work that is on `own` (5), a stream from Gpu::make_stream. Throws
  /// Error(internal) if the device has failed.
  virtual void release(Stream& own) const = 0;
  /// Whether the graph can never run again, because it no longer exists and its runs have ended.
  [[nodiscard]] virtual bool is_over() const = 0;
};

}  // namespace hora
