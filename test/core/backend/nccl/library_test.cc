// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/library.h"

#include "test/support/processes.h"
#include "test/support/thrown.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace hora::nccl {
namespace {

const std::vector<std::string> kNowhere{"/nowhere/libnccl.so.2", "libnccl-of-nobody.so.2"};

/// A library that has been opened stays in its process, so each test has a process of its own.
void in_a_process(const std::function<void()>& main) {
  EXPECT_EQ(run_processes(1, [&](int /*rank*/) { main(); }), std::vector<int>{0});
}

TEST(OpenNccl, OpensTheFileThatIsNamed) {
  in_a_process([] {
    const OpenNccl nccl = open_nccl(FAKE_LIBNCCL, kNowhere);
    EXPECT_TRUE(std::filesystem::equivalent(nccl.library.path, FAKE_LIBNCCL));
    EXPECT_EQ(nccl.library.version, NCCL_VERSION_CODE);
    EXPECT_NE(nccl.functions.mem_alloc, nullptr);
  });
}

TEST(OpenNccl, TakesTheFirstPlaceThatHasOne) {
  in_a_process([] {
    const OpenNccl nccl = open_nccl("", {"/nowhere/libnccl.so.2", FAKE_LIBNCCL, EMPTY_LIBRARY});
    EXPECT_TRUE(std::filesystem::equivalent(nccl.library.path, FAKE_LIBNCCL));
  });
}

TEST(OpenNccl, KeepsToTheOneThatTheProcessHas) {
  in_a_process([] {
    const std::filesystem::path copy = testing::TempDir() + "nccl-" + std::to_string(::getpid());
    std::filesystem::create_directories(copy);
    std::filesystem::copy_file(FAKE_LIBNCCL, copy / "libnccl.so.2");
    const std::string loaded = copy / "libnccl.so.2";
    EXPECT_NE(::dlopen(loaded.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr);
    for (const char* named : {"", FAKE_LIBNCCL, "/nowhere/libnccl.so.2"})
      EXPECT_EQ(open_nccl(named, {FAKE_LIBNCCL}).library.path, loaded);
    std::filesystem::remove_all(copy);
  });
}

TEST(OpenNccl, WarnsThatPyTorchWillBeGivenTheOneThatIsNamed) {
  for (const char* packaged : {"/nowhere/libnccl.so.2", FAKE_LIBNCCL, EMPTY_LIBRARY}) {
    in_a_process([packaged] {
      testing::internal::CaptureStderr();
      static_cast<void>(open_nccl(FAKE_LIBNCCL, {packaged}));
      const std::string said = testing::internal::GetCapturedStderr();
      const bool other = packaged == std::string(EMPTY_LIBRARY);
      EXPECT_EQ(said.find("import PyTorch before Hora") != std::string::npos, other) << packaged << said;
    });
  }
}

TEST(OpenNccl, SaysWhereItLooked) {
  in_a_process([] {
    const Status status = thrown([] { static_cast<void>(open_nccl("", kNowhere)); });
    EXPECT_EQ(status.code, Code::unavailable);
    for (const char* part : {"there is no NCCL here (", "/nowhere/libnccl.so.2", "libnccl-of-nobody.so.2",
                             "pip install nvidia-nccl-cu13", "HORA_NCCL_LIBRARY"})
      EXPECT_NE(status.message.find(part), std::string::npos) << status.message;
  });
}

TEST(OpenNccl, RefusesWhatIsNamedAndCannotBeLoaded) {
  in_a_process([] {
    const Status status =
        thrown([] { static_cast<void>(open_nccl("/nowhere/libnccl.so.2", {FAKE_LIBNCCL})); });
    EXPECT_EQ(status.code, Code::unavailable);
    EXPECT_EQ(status.message.find("cannot load NCCL, which HORA_NCCL_LIBRARY names: /nowhere"), 0U)
        << status.message;
  });
}

TEST(OpenNccl, RefusesAnotherLibrary) {
  in_a_process([] {
    const Status status = thrown([] { static_cast<void>(open_nccl(EMPTY_LIBRARY, {})); });
    EXPECT_EQ(status.code, Code::unavailable);
    EXPECT_NE(status.message.find("is no NCCL"), std::string::npos) << status.message;
  });
}

TEST(OpenNccl, RefusesOneThatIsTooOld) {
  in_a_process([] {
    ::setenv("FAKE_NCCL_VERSION", "21403", 1);
    const Status status = thrown([] { static_cast<void>(open_nccl(FAKE_LIBNCCL, {})); });
    EXPECT_EQ(status.code, Code::unavailable);
    EXPECT_EQ(status.message.find("NCCL 2.14.3 ("), 0U) << status.message;
    EXPECT_NE(status.message.find("is too old: Hora needs 2.18.0 or later"), std::string::npos)
        << status.message;
  });
}

TEST(OpenNccl, LeavesOutWhatTheVersionDoesNotHaveYet) {
  in_a_process([] {
    ::setenv("FAKE_NCCL_VERSION", "21803", 1);
    const OpenNccl nccl = open_nccl(FAKE_LIBNCCL, {});
    EXPECT_EQ(nccl.functions.mem_alloc, nullptr);
    EXPECT_EQ(nccl.functions.register_memory, nullptr);
    EXPECT_NE(nccl.functions.split, nullptr);
  });
}

TEST(OpenNccl, TakesWindowsFromTheVersionOnWhoseAbortEndsKernelsInThem) {
  for (const std::string version : {"22906", "22907"}) {
    in_a_process([&] {
      ::setenv("FAKE_NCCL_VERSION", version.c_str(), 1);
      const OpenNccl nccl = open_nccl(FAKE_LIBNCCL, {});
      EXPECT_EQ(nccl.functions.register_window != nullptr, version == "22907");
      EXPECT_EQ(nccl.functions.deregister_window != nullptr, version == "22907");
    });
  }
}

TEST(OpenNccl, WarnsOfVersionsWhoseAbortsHang) {
  in_a_process([] {
    ::setenv("FAKE_NCCL_VERSION", "22501", 1);
    testing::internal::CaptureStderr();
    static_cast<void>(open_nccl(FAKE_LIBNCCL, {}));
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("NCCL 2.25.1 ("), std::string::npos) << said;
    EXPECT_NE(said.find("may not return from ncclCommAbort"), std::string::npos) << said;
  });
}

TEST(NcclPlaces, BeginBesideThePythonPackages) {
  const auto paths = nccl_paths();
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_TRUE(paths[0].ends_with("/nvidia/nccl/lib/libnccl.so.2")) << paths[0];
  EXPECT_EQ(paths[1], "libnccl.so.2");
}

TEST(NcclPlaces, BeginWithThePackageThatPythonHasFound) {
  const auto paths = nccl_paths("/packages/nvidia/nccl/lib/libnccl.so.2");
  ASSERT_EQ(paths.size(), 3U);
  EXPECT_EQ(paths[0], "/packages/nvidia/nccl/lib/libnccl.so.2");
}

}  // namespace
}  // namespace hora::nccl
