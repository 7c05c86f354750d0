// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/engine_token.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace hora {
namespace {

TEST(EngineToken, HasOneHolderWhoSeesWhatTheLastOneWrote) {
  EngineToken token(true);
  int turns = 0;  // under the token
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 1000;) {
        if (!token.take()) {
          std::this_thread::yield();
          continue;
        }
        ++turns;
        ++turn;
        token.give_back();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(turns, 4000);
}

TEST(EngineToken, HasNoHelperAfterHelpWasForbidden) {
  for (int round = 0; round < 200; ++round) {
    EngineToken token(true);
    bool forbidden = false;  // written after all helpers have gone, read by helpers alone
    std::vector<std::thread> helpers;
    for (int i = 0; i < 2; ++i) {
      helpers.emplace_back([&] {
        const EngineToken::Help counted(token);
        while (token.allows_help()) {
          EXPECT_FALSE(forbidden);
          std::this_thread::yield();
        }
      });
    }
    EXPECT_TRUE(token.forbid_help());
    token.await_helpers();
    forbidden = true;
    EXPECT_FALSE(token.forbid_help());
    for (auto& helper : helpers) helper.join();
  }
}

}  // namespace
}  // namespace hora
