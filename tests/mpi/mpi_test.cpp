// The communicator over MPI. mpirun starts this program several times; every process runs every test.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "heed/error.h"
#include "mpi/mpi_thread.h"
#include "mpi/processes.h"
#include "reference/error.h"

namespace heed::mpi {
namespace {

std::unique_ptr<Communicator> world;

// Numbers whose sum depends on the order of summation.
std::vector<float> numbers_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = std::sin(static_cast<float>(i + 1) * static_cast<float>(rank + 1)) *
                std::pow(10.0F, static_cast<float>(rank * 3));
  return values;
}

std::vector<float> sum_in_order(std::size_t count) {
  std::vector<float> total = numbers_of(0, count);
  for (int r = 1; r < world->size(); ++r) {
    const std::vector<float> addend = numbers_of(r, count);
    for (std::size_t i = 0; i < count; ++i) total[i] += addend[i];
  }
  return total;
}

TEST(Mpi, SumsAreInTheOrderOfRanks) {
  for (const std::size_t count : {0, 1, 3, 1000, 100003}) {
    std::vector<float> values = numbers_of(world->rank(), count);
    world->start_sum({values, nullptr})->wait();
    EXPECT_EQ(values, sum_in_order(count)) << count;
  }
}

TEST(Mpi, PartsOfASumAndTheirExchange) {
  constexpr std::size_t kCount = 1001;
  std::vector<float> values = numbers_of(world->rank(), kCount);
  world->start_sum_of_part({values, nullptr})->wait();
  const std::vector<float> expected = sum_in_order(kCount);
  const auto [begin, end] = part_of(kCount, world->rank(), world->size());
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kCount); ++i) {
    if (i >= begin && i < end) {
      EXPECT_EQ(values[static_cast<std::size_t>(i)], expected[static_cast<std::size_t>(i)]);
    } else {
      values[static_cast<std::size_t>(i)] = -1;
    }
  }
  world->start_gather_of_parts({values, nullptr})->wait();
  EXPECT_EQ(values, expected);
}

TEST(Mpi, ManyOperationsRunAtOnce) {
  std::vector<std::vector<float>> buffers;
  for (int i = 0; i < 20; ++i)
    buffers.push_back(numbers_of(world->rank(), static_cast<std::size_t>(500 * i)));
  std::vector<std::unique_ptr<PendingOperation>> pending;
  for (auto& buffer : buffers) pending.push_back(world->start_sum({buffer, nullptr}));
  EXPECT_EQ(world->sum({1})[0], world->size());
  for (const auto& operation : pending) operation->wait();
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(buffers[static_cast<std::size_t>(i)], sum_in_order(static_cast<std::size_t>(500 * i)));
}

TEST(Mpi, BytesOfAnyLength) {
  const std::string own(static_cast<std::size_t>(world->rank() * 70000),
                        static_cast<char>('a' + world->rank()));
  const std::vector<std::string> all = world->gather(own);
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world->size()));
  for (int r = 0; r < world->size(); ++r)
    EXPECT_EQ(all[static_cast<std::size_t>(r)],
              std::string(static_cast<std::size_t>(r * 70000), static_cast<char>('a' + r)));
  const std::string text(100000, 'x');
  EXPECT_EQ(world->broadcast_text(world->is_first() ? text : "other"), text);
  EXPECT_EQ(world->sum({0.5, static_cast<double>(world->rank())})[0], 0.5 * world->size());
  world->barrier();
}

TEST(Mpi, DifferencesAreNamed) {
  check_same(*world, "test", "text", "equal");
  const std::string own = world->rank() == 1 ? "first\nother" : "first\nsecond";
  EXPECT_ERROR(
      check_same(*world, "test", "recipe", own),
      "test: expected the same recipe in all processes, got second in process 0 and other in process 1");
}

TEST(Mpi, CountsWhatItSends) {
  const Traffic before = world->traffic();
  std::vector<float> values(static_cast<std::size_t>(world->size()) * 1000);
  world->start_sum({values, nullptr})->wait();
  const Traffic after = world->traffic();
  EXPECT_EQ(after.bytes_sent - before.bytes_sent, 2 * (world->size() - 1) * 4000);
  EXPECT_GT(after.seconds, before.seconds);
}

TEST(MpiThread, OperationsAfterAFailureFailToo) {
  MpiThread worker([] {}, [] { ADD_FAILURE() << "there is nobody to end with"; });
  const auto fails = worker.start([] { throw Error("the first"); }, nullptr);
  const auto later = worker.start([] { ADD_FAILURE(); }, nullptr);
  for (const auto& operation : {fails.get(), later.get()}) EXPECT_ERROR(operation->wait(), "the first");
  EXPECT_ERROR(MpiThread([] { throw Error("no beginning"); }, [] {}), "no beginning");
}

}  // namespace
}  // namespace heed::mpi

// One process is silent; the others must say so and end all.
int run_silence() {
  using heed::mpi::world;
  if (world->rank() == world->size() - 1) std::this_thread::sleep_for(std::chrono::seconds(60));
  try {
    world->barrier();
  } catch (const heed::Error& error) {
    std::printf("%s\n", error.what());
    std::fflush(stdout);
    world->end_all(3);
  }
  return 0;
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool silence = argc > 1;
  if (silence) ::setenv("HEED_PEER_TIMEOUT", "2", 1);
  try {
    heed::mpi::world = heed::mpi::join_processes(heed::current_launch(), "test");
  } catch (const heed::Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  const int status = silence ? run_silence() : RUN_ALL_TESTS();
  heed::mpi::world = nullptr;
  return status;
}
