// No check fails on a sound model: every fixture with random weights, of every family, and the shipped model.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "heed/doctor.h"
#include "heed/open/loaded_model.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(HEED_FIXTURES)) {
    // Modules of sentence-transformers (1_Pooling) have a config.json, but are parts of a model.
    const std::string folder = entry.path().parent_path().filename().string();
    const bool is_module = folder.size() > 1 && folder[0] >= '0' && folder[0] <= '9' && folder[1] == '_';
    if (entry.path().filename() == "config.json" && !is_module)
      names.push_back(fs::relative(entry.path().parent_path(), HEED_FIXTURES).string());
  }
  std::sort(names.begin(), names.end());
  for (const char* shipped : {"cifar10", "en-fr", "reviews", "reviews-mlm", "shakespeare"})
    names.push_back(std::string("../../models/") + shipped);
  return names;
}

// The walk would find nothing wrong with a folder that it misses.
TEST(SoundFixtures, AreAllThere) {
  EXPECT_EQ(fixtures().size(), 142u + 5)
      << "change the first number with the folders of fixtures that have a "
         "config.json, the second with the shipped models";
}

class Sound : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Fixtures, Sound, testing::ValuesIn(fixtures()), [](const auto& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST_P(Sound, NoCheckFails) {
  const LoadedModel opened = open_model(fs::path(HEED_FIXTURES) / GetParam(), {.head = true});
  for (const CheckResult& result : examine(checked_model(opened))) {
    EXPECT_NE(result.finding.status, CheckStatus::failed)
        << result.name << ": " << result.finding.measurement;
    EXPECT_FALSE(result.finding.measurement.empty()) << result.name;
    EXPECT_FALSE(std::regex_search(result.finding.measurement, std::regex("e\\+\\d+ %|, ,")))
        << result.finding.measurement;
    const bool odd =
        result.finding.status == CheckStatus::warning || result.finding.status == CheckStatus::failed;
    EXPECT_EQ(odd, !result.finding.advice.empty()) << result.name;
  }
}

}  // namespace
}  // namespace heed
