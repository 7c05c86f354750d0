// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi_module.h"

#include "core/backend/module.h"

namespace hora {
namespace {

Module module_for_mpi() {
  return load_module(
      "mpi",
      {.absent = "build Hora where CMake finds MPI (Debian and Ubuntu: apt-get install libopenmpi-dev), and "
                 "install the library beside libhora",
       .unloadable =
           "install the Open MPI that Hora was built with (Debian and Ubuntu: apt-get install openmpi-bin)"});
}

}  // namespace

const MpiModule& load_mpi() { return *static_cast<const MpiModule*>(module_for_mpi().functions); }

std::string mpi_module_path() { return module_for_mpi().path; }

}  // namespace hora
