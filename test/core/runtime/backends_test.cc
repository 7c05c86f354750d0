// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/backends.h"

#include <hora/hora.h>

#include <gtest/gtest.h>

#include <set>

namespace hora {
namespace {

TEST(Backends, HaveNamesByWhichTheyAreChosen) {
  std::set<std::string_view> names;
  for (const Backend& backend : backends()) {
    names.insert(backend.name);
    Config config;
    config.cpu_operations = backend.name;
    EXPECT_EQ(backend_of(config), backend.connect) << backend.name;
    EXPECT_FALSE(backend.look().text.empty()) << backend.name;
  }
  EXPECT_EQ(names.size(), backends().size());
  EXPECT_FALSE(names.contains("auto"));
}

TEST(Backends, AnUnknownNameIsRefusedBeforeAnythingIsConnected) {
  Config config;
  config.cpu_operations = "gloo";
  try {
    const Runtime hora(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "HORA_CPU_OPERATIONS='gloo': expected one of auto, shm, tcp, mpi");
  }
}

}  // namespace
}  // namespace hora
