// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/mpirun.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hora::hrun {
namespace {

using Words = std::vector<std::string>;

MpiJob small_job() {
  MpiJob job;
  job.ranks = 3;
  job.hosts = {{"a", 2}, {"b", 1}};
  job.directory = "/home/me";
  job.command = {"/bin/train", "--epochs", "3"};
  return job;
}

TEST(MpirunCommand, HasRanksHostsAndTheProgram) {
  EXPECT_EQ(mpirun_command("/usr/bin/mpirun", small_job()),
            (Words{"/usr/bin/mpirun", "-np", "3", "-H", "a:2,b:1", "--bind-to", "none", "--map-by", "slot",
                   "--wdir", "/home/me", "/bin/train", "--epochs", "3"}));
}

TEST(MpirunCommand, PassesOnWhatWasAskedFor) {
  MpiJob job = small_job();
  job.oversubscribe = job.as_root = true;
  job.network = "eth0";
  job.ssh_port = 2222;
  job.identity_file = "/home/me/key";
  job.variables = {"PATH", "HORA_NETWORK"};
  job.arguments = {"--mca", "btl", "tcp,self"};
  EXPECT_EQ(mpirun_command("mpirun", job), (Words{"mpirun",
                                                  "-np",
                                                  "3",
                                                  "-H",
                                                  "a:2,b:1",
                                                  "--oversubscribe",
                                                  "--allow-run-as-root",
                                                  "--bind-to",
                                                  "none",
                                                  "--map-by",
                                                  "slot",
                                                  "--wdir",
                                                  "/home/me",
                                                  "--mca",
                                                  "btl_tcp_if_include",
                                                  "eth0",
                                                  "--mca",
                                                  "oob_tcp_if_include",
                                                  "eth0",
                                                  "--mca",
                                                  "plm_rsh_args",
                                                  "-p 2222 -i /home/me/key",
                                                  "-x",
                                                  "PATH",
                                                  "-x",
                                                  "HORA_NETWORK",
                                                  "--mca",
                                                  "btl",
                                                  "tcp,self",
                                                  "/bin/train",
                                                  "--epochs",
                                                  "3"}));
}

TEST(Become, IsTheOtherProgramWithItsEnvironment) {
  const pid_t child = ::fork();
  if (child == 0) become({"/bin/sh", "-c", "exit $CODE"}, {"CODE=7"});
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST(Become, SaysSoWhenThereIsNoSuchProgram) { EXPECT_THROW(become({"/nowhere/mpirun"}, {}), Error); }

}  // namespace
}  // namespace hora::hrun
