// SPDX-License-Identifier: Apache-2.0
#include <hora/c.h>
#include <hora/hora.h>

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

hora_entry entry(hora_operation operation, const char* name, const float* input, const int64_t* shape) {
  hora_entry made{};
  made.operation = operation;
  made.name = name;
  made.input = input;
  made.shape = shape;
  made.dimensions = 1;
  made.dtype = HORA_FLOAT32;
  return made;
}

TEST(CFace, HasTheNumbersOfCpp) {
  EXPECT_EQ(HORA_SCAN, static_cast<int>(hora::Operation::scan));
  EXPECT_EQ(HORA_REDUCESCATTER, static_cast<int>(hora::Operation::reducescatter));
  EXPECT_EQ(HORA_GATHER, static_cast<int>(hora::Operation::gather));
  EXPECT_EQ(HORA_BOOL, static_cast<int>(hora::DType::boolean));
  EXPECT_EQ(HORA_COMPLEX64, static_cast<int>(hora::DType::complex64));
  EXPECT_EQ(HORA_FLOAT8_E8M0FNU, hora::kDTypes - 1);
  EXPECT_EQ(HORA_LOGICAL_OR, static_cast<int>(hora::ReduceOp::logical_or));
  EXPECT_EQ(HORA_ANY_SOURCE, hora::kAnySource);
  EXPECT_EQ(HORA_ANY_TAG, hora::kAnyTag);
  EXPECT_EQ(std::size_t{HORA_SECRET_BYTES}, hora::Secret{}.size());
}

TEST(CFace, RunsAJobOfOneRank) {
  EXPECT_EQ(hora_rank(), -1);
  EXPECT_EQ(hora_is_initialized(), 0);
  ASSERT_EQ(hora_init(), HORA_OK);
  EXPECT_EQ(hora_rank(), 0);
  EXPECT_EQ(hora_size(), 1);

  float data[3] = {1, 2, 3};
  const int64_t shape[1] = {3};
  hora_entry sum = entry(HORA_ALLREDUCE, "x", data, shape);
  sum.output = data;
  sum.op = HORA_SUM;
  sum.prescale = 2.0;
  hora_handle* handle = nullptr;
  ASSERT_EQ(hora_submit(&sum, 1, &handle), HORA_OK);
  EXPECT_EQ(hora_wait(handle), HORA_OK);
  EXPECT_EQ(hora_poll(handle), 1);
  EXPECT_EQ(data[2], 6.0F);
  EXPECT_EQ(hora_output(handle, nullptr), nullptr) << "Hora allocated none";
  hora_release(handle);
  sum.prescale = -0.0;
  ASSERT_EQ(hora_submit(&sum, 1, &handle), HORA_OK);
  hora_release(handle);
  EXPECT_EQ(data[2], 0.0F);

  hora_entry root = entry(HORA_BROADCAST, "b", data, shape);
  root.output = data;
  ASSERT_EQ(hora_submit(&root, 1, &handle), HORA_OK);
  hora_release(handle);
  root.root = 7;
  EXPECT_EQ(hora_submit(&root, 1, &handle), HORA_INVALID_ARGUMENT);
  EXPECT_STREQ(hora_last_error(), "'b': there is no root rank 7: ranks are 0 to 0");
  root.dtype = static_cast<hora_dtype>(99);
  EXPECT_EQ(hora_submit(&root, 1, &handle), HORA_INVALID_ARGUMENT);
  EXPECT_STREQ(hora_last_error(), "there is no dtype 99");
  root.dtype = HORA_FLOAT32;
  root.operation = static_cast<hora_operation>(hora::Operation::join);
  EXPECT_EQ(hora_submit(&root, 1, &handle), HORA_INVALID_ARGUMENT);
  EXPECT_STREQ(hora_last_error(), "there is no operation 6");

  void* memory = hora_allocate(100);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(hora_barrier("meet", 0), HORA_OK);
  int last_rank = -1;
  EXPECT_EQ(hora_join(&last_rank), HORA_OK);
  EXPECT_EQ(last_rank, 0);
  EXPECT_EQ(hora_shutdown(nullptr), HORA_OK);
  static_cast<char*>(memory)[99] = 1;  // outlives the job
  hora_free(memory);
  EXPECT_EQ(hora_barrier("meet", 0), HORA_INVALID_ARGUMENT);
}

TEST(CFace, SaysWhatWasWrongAlsoWhenTheProgramEnds) {
  const auto end_after_an_error = [] {
    hora_barrier("too early", 0);
    std::atexit([] {
      hora_barrier("too late", 0);
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
      hora_barrier("too late", 0);
      std::fputs(hora_last_error(), stderr);
      hora_free(nullptr);
      hora_shutdown(nullptr);
    });
    if (hora_init() == HORA_OK) std::exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in a process of its own, where nothing has called Hora
  EXPECT_EXIT(end_within_a_job(), testing::ExitedWithCode(0), "rank -1, Hora is not initialised");
}

TEST(CFace, MovesRowsGroupsSetsAndMessages) {
  ASSERT_EQ(hora_init(), HORA_OK);
  const float data[3] = {1, 2, 3};
  const int64_t shape[1] = {3};
  float output[3] = {};
  hora_entry group[2] = {entry(HORA_ALLGATHER, "g", data, shape), entry(HORA_ALLTOALL, "t", data, shape)};
  const int64_t splits[1] = {2};
  group[1].splits = splits;
  group[1].output = output;
  group[1].output_rows = 2;
  hora_handle* handles[2] = {};
  ASSERT_EQ(hora_submit(group, 2, handles), HORA_OK) << hora_last_error();
  for (hora_handle* handle : handles) ASSERT_EQ(hora_wait(handle), HORA_OK) << hora_last_error();
  int64_t rows = 0;
  EXPECT_EQ(static_cast<const float*>(hora_output(handles[0], &rows))[1], 2.0F);
  EXPECT_EQ(rows, 3);
  EXPECT_EQ(output[1], 2.0F);
  EXPECT_EQ(hora_rows(handles[1], &rows, 1), 1);
  EXPECT_EQ(rows, 2);
  for (hora_handle* handle : handles) hora_release(handle);

  const int everyone[1] = {0};
  int set = 0;
  ASSERT_EQ(hora_add_process_set(everyone, 1, "one", &set), HORA_OK);
  EXPECT_EQ(set, 1);
  EXPECT_EQ(hora_barrier("within", set), HORA_OK);
  ASSERT_EQ(hora_receive(HORA_ANY_SOURCE, 5, set, output, shape, 1, HORA_FLOAT32, &handles[0]), HORA_OK);
  hora_completion_queue* queue = nullptr;
  ASSERT_EQ(hora_completion_queue_make(&queue), HORA_OK);
  ASSERT_EQ(hora_completion_queue_watch(queue, handles[0], 42), HORA_OK);
  EXPECT_EQ(hora_source(handles[0]), -1) << "nothing has come";
  EXPECT_EQ(hora_wait_for(handles[0], 1), HORA_TIMEOUT);
  ASSERT_EQ(hora_send(0, 5, set, data, shape, 1, HORA_FLOAT32, &handles[1]), HORA_OK);
  pollfd event{hora_completion_queue_fd(queue), POLLIN, 0};
  ASSERT_EQ(::poll(&event, 1, 20'000), 1);
  uint64_t token = 0;
  EXPECT_EQ(hora_completion_queue_take(queue, &token, 1), 1);
  EXPECT_EQ(token, 42U);
  EXPECT_EQ(hora_completion_queue_take(queue, &token, 1), 0);
  hora_completion_queue_free(queue);
  EXPECT_EQ(hora_wait_for(handles[0], 20'000), HORA_OK);
  EXPECT_EQ(hora_source(handles[0]), 0);
  EXPECT_EQ(output[2], 3.0F);
  for (hora_handle* handle : handles) hora_release(handle);
  EXPECT_EQ(hora_remove_process_set(set), HORA_OK);
  EXPECT_EQ(hora_shutdown(nullptr), HORA_OK);
}

TEST(CFace, JoinsByArguments) {
  char coordinator[1024];
  unsigned char secret[HORA_SECRET_BYTES] = {};
  EXPECT_EQ(hora_listen(coordinator, 3, secret), HORA_INVALID_ARGUMENT);
  ASSERT_EQ(hora_listen(coordinator, sizeof coordinator, secret), HORA_OK) << hora_last_error();
  EXPECT_EQ(hora_init_at(1, 1, coordinator, secret), HORA_INVALID_ARGUMENT);
  EXPECT_STREQ(hora_last_error(), "rank=1: with size=1 ranks are 0 to 0");
  ASSERT_EQ(hora_init_at(0, 1, coordinator, secret), HORA_OK) << hora_last_error();
  EXPECT_EQ(hora_local_size(), 1);
  EXPECT_EQ(hora_init_at(1, 2, coordinator, secret), HORA_INVALID_ARGUMENT);
  EXPECT_STREQ(hora_last_error(),
               "this process is rank 0 of 1 already; hora_shutdown() comes before another place");
  EXPECT_EQ(hora_shutdown(nullptr), HORA_OK);
}

TEST(CFace, AGatherThatFailedHasNoOutput) {
  ASSERT_EQ(hora_init(), HORA_OK);
  const int64_t shape[1] = {int64_t{1} << 58};  // more than there is memory for
  hora_handle* handle = nullptr;
  const float data[1] = {1};
  testing::internal::CaptureStderr();
  const hora_entry gather = entry(HORA_ALLGATHER, "g", data, shape);
  ASSERT_EQ(hora_submit(&gather, 1, &handle), HORA_OK);
  EXPECT_EQ(hora_wait(handle), HORA_UNAVAILABLE);
  int64_t rows = 7;
  EXPECT_EQ(hora_output(handle, &rows), nullptr);
  hora_release(handle);
  EXPECT_EQ(hora_shutdown(nullptr), HORA_OK);
  testing::internal::GetCapturedStderr();
}

}  // namespace
