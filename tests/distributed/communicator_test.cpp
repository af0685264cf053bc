// Parts, and one process alone.
#include "heed/distributed/communicator.h"

#include <gtest/gtest.h>

namespace heed {
namespace {

TEST(Communicator, PartsCoverEverythingOnce) {
  for (const std::int64_t count : {0, 1, 3, 7, 64, 1000}) {
    for (const int size : {1, 2, 3, 4, 7}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const auto [begin, end] = part_of(count, rank, size);
        EXPECT_EQ(begin, next);
        EXPECT_GE(end - begin, count / size);
        EXPECT_LE(end - begin, count / size + 1);
        next = end;
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(Communicator, PartsOfMoreThanTheLargestInt) {
  const std::int64_t count = (std::int64_t{1} << 40) + 3;
  EXPECT_EQ(part_of(count, 0, 4).second, (std::int64_t{1} << 38) + 1);
  EXPECT_EQ(part_of(count, 3, 4).second, count);
}

TEST(Communicator, OneProcessKeepsWhatItHas) {
  SingleProcess alone;
  std::vector<float> values{1, 2, 3};
  alone.start_sum({values, nullptr})->wait();
  alone.start_sum_of_part({values, nullptr})->wait();
  alone.start_gather_of_parts({values, nullptr})->wait();
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(alone.sum({4, 5}), (std::vector<double>{4, 5}));
  EXPECT_EQ(alone.gather("text"), std::vector<std::string>{"text"});
  EXPECT_EQ(alone.broadcast_text("text"), "text");
  EXPECT_TRUE(alone.is_first());
  alone.barrier();
  alone.end_all(1);
  check_same(alone, "test", "text", "any");
}

}  // namespace
}  // namespace heed
