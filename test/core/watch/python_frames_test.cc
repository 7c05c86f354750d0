// SPDX-License-Identifier: Apache-2.0
#include "core/watch/python_frames.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

constexpr const char* kInTorch =
    "    File \"/v/lib/python3.11/site-packages/torch/_tensor.py\", line 631 in backward";
constexpr const char* kOwn = "    File \"/home/a b/train.py\", line 5 in step";

TEST(PythonFrames, TellTheProgramsOwnLinesAlone) {
  EXPECT_EQ(
      own_python_frames(std::string(kInTorch) + "\n" + kOwn + "\n    File \"<string>\", line 7 in <module>"),
      "train.py:5 in step, called from <string>:7 in <module>");
}

TEST(PythonFrames, TellALibrarysWhereThereAreNoOthers) {
  EXPECT_EQ(own_python_frames(kInTorch), "_tensor.py:631 in backward");
}

TEST(PythonFrames, TellTheInnermostOfMany) {
  std::string stack = kOwn;
  for (int i = 0; i < 5; ++i) stack += std::string("\n") + kOwn;
  EXPECT_TRUE(own_python_frames(stack).ends_with("train.py:5 in step and 2 more"))
      << own_python_frames(stack);
}

TEST(PythonFrames, LeaveOtherStacksAsTheyAre) {
  for (const std::string stack :
       {"", "    main in ./train", "    File \"cut", "    File \"train.py\", line 3\n    x"})
    EXPECT_EQ(own_python_frames(stack), stack);
}

}  // namespace
}  // namespace hora
