// SPDX-License-Identifier: Apache-2.0
// The one symbol that libhora_mpi.so exports: hora_module.
#include "core/backend/mpi_module.h"

#include "core/backend/module.h"
#include "core/backend/mpi/bootstrap.h"
#include "core/backend/mpi/mpi_collective.h"
#include "core/backend/mpi/session.h"

extern "C" __attribute__((visibility("default"))) const hora::ModuleFace* hora_module() {
  static constexpr hora::MpiModule kFunctions{
      hora::mpi::library_name,
      [] { return hora::mpi::mpi_runs() && hora::mpi::thread_level() == MPI_THREAD_MULTIPLE; },
      hora::mpi::bootstrap_by_mpi, hora::mpi::connect_mpi};
  static constexpr hora::ModuleFace kFace{HORA_VERSION, &kFunctions};
  return &kFace;
}
