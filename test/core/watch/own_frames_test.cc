// SPDX-License-Identifier: Apache-2.0
#include "core/watch/own_frames.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

constexpr const char* kInTorch =
    "    File \"/v/lib/python3.11/site-packages/torch/_tensor.py\", line 6 in b\n";
constexpr const char* kOwn = "    File \"/home/a b/train.py\", line 5 in step\n";
constexpr const char* kInHora =
    "    hora::Handle::wait() const in /opt/hora/lib/libhora.so.0\n"
    "    /lib/x86_64-linux-gnu/libc.so.6(+0x2724a)[0x7f1413e4524a]\n";

TEST(OwnFrames, TellTheProgramsLinesAlone) {
  EXPECT_EQ(own_frames(std::string(kInTorch) + kOwn + "    File \"<string>\", line 7 in <module>"),
            "train.py:5 in step, called from <string>:7 in <module>");
  EXPECT_EQ(
      own_frames(std::string(kInHora) + "    step(int) in ./train\n    ./train(+0x3221)[0x55881a806221]\n"),
      "step(int) in ./train, called from ./train(+0x3221)");
}

TEST(OwnFrames, TellTheInnermostOfMany) {
  std::string stack;
  for (int i = 0; i < 6; ++i) stack += kOwn;
  EXPECT_TRUE(own_frames(stack).ends_with("train.py:5 in step and 2 more")) << own_frames(stack);
}

TEST(OwnFrames, LeaveAStackOfLibrariesAloneAsItIs) {
  for (const std::string stack : {"", kInTorch, kInHora}) EXPECT_EQ(own_frames(stack), stack);
}

TEST(OwnFrames, PassOnWhatWasCut) {
  EXPECT_EQ(own_frames("    File \"cut"), "File \"cut");
  EXPECT_EQ(own_frames("    File \"train.py\", line 3"), "train.py:3");
}

}  // namespace
}  // namespace hora
