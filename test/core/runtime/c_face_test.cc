// SPDX-License-Identifier: Apache-2.0
#include <hora/c.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

TEST(CFace, RunsAJobOfOneRank) {
  EXPECT_EQ(hora_rank(), -1);
  EXPECT_EQ(hora_is_initialized(), 0);
  ASSERT_EQ(hora_init(), HORA_OK);
  EXPECT_EQ(hora_rank(), 0);
  EXPECT_EQ(hora_size(), 1);

  float data[3] = {1, 2, 3};
  const int64_t shape[1] = {3};
  hora_handle* handle = nullptr;
  ASSERT_EQ(
      hora_allreduce("x", data, data, shape, 1, HORA_FLOAT32, HORA_SUM, 2.0, 1.0, HORA_FLOAT32, &handle),
      HORA_OK);
  EXPECT_EQ(hora_wait(handle), HORA_OK);
  EXPECT_EQ(hora_poll(handle), 1);
  EXPECT_EQ(data[2], 6.0F);
  hora_release(handle);

  ASSERT_EQ(hora_allgather("g", data, shape, 1, HORA_FLOAT32, &handle), HORA_OK);
  ASSERT_EQ(hora_wait(handle), HORA_OK);
  int64_t rows = 0;
  EXPECT_EQ(static_cast<const float*>(hora_output(handle, &rows))[1], 4.0F);
  EXPECT_EQ(rows, 3);
  hora_release(handle);

  ASSERT_EQ(hora_broadcast("b", data, data, shape, 1, HORA_FLOAT32, 0, &handle), HORA_OK);
  hora_release(handle);
  EXPECT_EQ(hora_broadcast("b", data, data, shape, 1, HORA_FLOAT32, 7, &handle), HORA_INVALID_ARGUMENT);
  EXPECT_STREQ(hora_last_error(), "'b': there is no root rank 7: ranks are 0 to 0");

  void* memory = hora_allocate(100);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(hora_barrier("meet"), HORA_OK);
  EXPECT_EQ(hora_shutdown(nullptr), HORA_OK);
  static_cast<char*>(memory)[99] = 1;  // outlives the job
  hora_free(memory);
  EXPECT_EQ(hora_barrier("meet"), HORA_INVALID_ARGUMENT);
}

TEST(CFace, SaysWhatWasWrongAlsoWhenTheProgramEnds) {
  const auto end_after_an_error = [] {
    hora_barrier("too early");
    std::atexit([] {
      hora_barrier("too late");
      std::fputs(hora_last_error(), stderr);
    });
    std::exit(0);
  };
  EXPECT_EXIT(end_after_an_error(), testing::ExitedWithCode(0), "Hora is not initialised");
}

TEST(CFace, IsThereForFunctionsThatRunLastWhenTheProgramEnds) {
  const auto end_within_a_job = [] {
    std::atexit([] {  // before the first call of Hora, so it runs after all that Hora does at the end
      std::fprintf(stderr, "rank %d, ", hora_rank());
      hora_barrier("too late");
      std::fputs(hora_last_error(), stderr);
      hora_free(nullptr);
      hora_shutdown(nullptr);
    });
    if (hora_init() == HORA_OK) std::exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own, where nothing has called Hora
  EXPECT_EXIT(end_within_a_job(), testing::ExitedWithCode(0), "rank -1, Hora is not initialised");
}

TEST(CFace, AGatherThatFailedHasNoOutput) {
  ASSERT_EQ(hora_init(), HORA_OK);
  const int64_t shape[1] = {int64_t{1} << 58};  // more than there is memory for
  hora_handle* handle = nullptr;
  const float data[1] = {1};
  testing::internal::CaptureStderr();
  ASSERT_EQ(hora_allgather("g", data, shape, 1, HORA_FLOAT32, &handle), HORA_OK);
  EXPECT_EQ(hora_wait(handle), HORA_UNAVAILABLE);
  int64_t rows = 7;
  EXPECT_EQ(hora_output(handle, &rows), nullptr);
  hora_release(handle);
  EXPECT_EQ(hora_shutdown(nullptr), HORA_OK);
  testing::internal::GetCapturedStderr();
}

}  // namespace
