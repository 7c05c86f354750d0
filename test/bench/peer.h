// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>
#include <hora/dtype.h>

#include <cstddef>
#include <memory>

namespace hora::bench {

/// Another library in the same processes, to compare with.
class Peer {
 public:
  virtual ~Peer() = default;
  /// A Config with which Hora connects the ranks that the peer has connected.
  virtual Config config() = 0;
  /// In place.
  virtual void allreduce(void* data, std::size_t count, DType dtype, ReduceOp op) = 0;
};

/// MPI. Throws Error(unavailable) if this program was built without it, or for a dtype that it does not
/// reduce.
std::unique_ptr<Peer> make_mpi_peer();

}  // namespace hora::bench
