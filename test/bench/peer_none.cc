// SPDX-License-Identifier: Apache-2.0
#include "test/bench/peer.h"

#include <hora/status.h>

namespace hora::bench {

std::unique_ptr<Peer> make_mpi_peer() {
  throw Error(Code::unavailable,
              "hora_bench was built without MPI: install Open MPI (libopenmpi-dev) and build again");
}

}  // namespace hora::bench
