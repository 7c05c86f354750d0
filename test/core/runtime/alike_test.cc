// SPDX-License-Identifier: Apache-2.0
#include <hora/alike.h>

#include "test/support/local_job.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(RequireAlike, LetsRanksThatAreAlikeGoOn) {
  run_local_job(3, [](Runtime& hora) {
    require_alike(hora, "items", "things", {{"a", "1"}, {"b", "2"}});
    if (hora.rank() == 1) {
      require_alike(hora, "items", "things", {{"b", "2"}, {"a", "1"}});
    } else {
      require_alike(hora, "items", "things", {{"a", "1"}, {"b", "2"}});
    }
    require_alike(hora, "items", "things", {});
  });
}

TEST(RequireAlike, ThrowsTheSameOnEveryRankAndTheJobGoesOn) {
  run_local_job(3, [](Runtime& hora) {
    std::vector<Item> items{{"a", "float32[3]"}};
    if (hora.rank() == 2) items.front().what = "float32[4]";
    try {
      require_alike(hora, "items", "the parameters", items);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::mismatch);
      EXPECT_STREQ(
          error.what(),
          "the parameters differ between ranks:\n  rank 2: 'a' is float32[4], and float32[3] on rank 0");
    }
    require_alike(hora, "items", "the parameters", {});
  });
}

TEST(RequireLike, ThrowsOnARankThatComparesAndDiffers) {
  run_local_job(3, [](Runtime& hora) {
    const std::vector<Item> items{{"a", hora.rank() == 1 ? "7" : "8"}, {"b", "of all"}};
    const Status status =
        thrown([&] { require_like(hora, "items", "it cannot join", items, 1, hora.rank() == 2); });
    EXPECT_EQ(status.message, hora.rank() == 2 ? "it cannot join:\n  rank 2: 'a' is 8, and 7 on rank 1" : "");
    require_like(hora, "items", "it cannot join", {{"a", "7"}}, 0, hora.rank() != 1);
  });
}

TEST(RequireAlike, IsOfTheMembersOfAProcessSet) {
  run_local_job(3, [](Runtime& hora) {
    const int set = hora.add_process_set({1, 2});
    if (hora.rank() == 0) return;
    const std::vector<Item> items{{"a", std::to_string(hora.rank())}};
    EXPECT_EQ(thrown([&] { require_alike(hora, "items", "things", items, set); }).message,
              "things differ between ranks:\n  rank 2: 'a' is 2, and 1 on rank 1");
  });
}

}  // namespace
}  // namespace hora
