// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/build_report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace hora::hrun {
namespace {

TEST(BuildReport, SaysWhatIsThereAndWhatIsNot) {
  const std::string report = build_report();
  EXPECT_NE(report.find("[x] tcp"), std::string::npos);
  EXPECT_NE(report.find("] nccl     "), std::string::npos);
  EXPECT_NE(report.find("libhora"), std::string::npos);
}

TEST(BuildReport, MarksTheLaunchersWhoseProgramsAreInPath) {
  const std::filesystem::path folder = testing::TempDir() + "launchers-" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink("/bin/true", folder / "srun");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder.c_str(), 1);
  const std::string report = build_report();
  ::setenv("PATH", path.c_str(), 1);
  std::filesystem::remove_all(folder);
  EXPECT_NE(report.find("  [ ] ssh: other hosts (-H, --hostfile)\n"
                        "  [x] slurm: srun, in an allocation\n"
                        "  [ ] mpi: mpirun (--mpi, --launcher mpi)\n"),
            std::string::npos)
      << report;
}

}  // namespace
}  // namespace hora::hrun
