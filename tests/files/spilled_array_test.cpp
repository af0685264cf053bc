// Arrays that move to a file when they grow.
#include "files/spilled_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "heed/error.h"
#include "temporary_folder.h"

namespace heed {
namespace {

std::vector<int> counting(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 7);
  return all;
}

void expect_keeps(SpilledArray<int> array, const std::vector<int>& elements) {
  for (std::size_t i = 0; i < elements.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, elements.size() - i);
    array.append(std::span(elements).subspan(i, count));
  }
  EXPECT_EQ(array.size(), elements.size());
  array.finish();
  const SpilledArray<int> moved = std::move(array);
  EXPECT_TRUE(std::ranges::equal(moved.view(), elements));
  SpilledArray<int> assigned;
  assigned.push_back(1);
  assigned = SpilledArray<int>();
  EXPECT_EQ(assigned.size(), 0u);
}

TEST(SpilledArray, KeepsItsElementsInMemoryOrInAFile) {
  const TemporaryFolder folder;
  for (const int count : {0, 1, 10, 1000, 1'000'000}) {
    expect_keeps(SpilledArray<int>(), counting(count));
    expect_keeps(SpilledArray<int>(folder.path(), 40), counting(count));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the files have no names";
  // Of a folder that another host writes to.
  expect_keeps(SpilledArray<int>("/no/such/folder", 40), counting(1000));
}

TEST(SpilledArray, SaysWhyItCannotBeKept) {
  SpilledArray<int> array("/proc", 8);
  try {
    array.append(counting(3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/proc: cannot keep a temporary file"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace heed
