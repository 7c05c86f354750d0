// SPDX-License-Identifier: Apache-2.0
#include "runner/horovod/horovod.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace hora::hrun {
namespace {

/// A directory with programs that answer as a Python does that finds the package there, or finds none.
class FindHorovodFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "horovod-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::filesystem::create_directories(folder_ + "/hora/_horovod/horovod");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string program(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    ::chmod(path.c_str(), 0700);
    return path;
  }

  static std::string found(const std::string& command) {
    Options options;
    options.command = {command};
    try {
      return find_horovod_folder(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      return error.what();
    }
  }

  std::string folder_;
};

TEST_F(FindHorovodFolder, AsksThePythonThatRunsTheProgram) {
  const std::string python = program("python3.11", "#!/bin/sh\nprintf %s '" + folder_ + "/hora/_horovod'\n");
  EXPECT_EQ(found(python), folder_ + "/hora/_horovod");
  EXPECT_EQ(found(program("train.py", "#!" + python + " -u\nimport horovod\n")), folder_ + "/hora/_horovod");
  EXPECT_EQ(found(program("other.py", "#!/usr/bin/env " + python + "\n")), folder_ + "/hora/_horovod");
}

TEST_F(FindHorovodFolder, NamesThePythonThatHasNoHora) {
  const std::string python = program("python", "#!/bin/sh\necho 'trouble' >&2\nexit 1\n");
  EXPECT_EQ(found(python), "--horovod: '" + python +
                               "' does not find the package hora; install it there, or say with PYTHONPATH "
                               "where it is");
}

TEST_F(FindHorovodFolder, NamesThePythonWhoseHoraIsOlder) {
  const std::string python = program("python", "#!/bin/sh\nprintf /nowhere/hora/_horovod\n");
  EXPECT_EQ(found(python), "--horovod: the package hora that '" + python +
                               "' finds has no /nowhere/hora/_horovod; install this version of it there");
}

}  // namespace
}  // namespace hora::hrun
