// A folder for a test's runs, and checks of its files.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/train/train.h"
#include "reference/error.h"
#include "reference/temporary_folder.h"

namespace heed {

class FolderTest : public ::testing::Test {
 protected:
  static std::string weights(const std::filesystem::path& run) {
    return read_file(run / "model.safetensors");
  }

  static std::vector<std::string> log_lines(const std::filesystem::path& run) {
    std::vector<std::string> lines;
    const std::string text = read_file(run / "log.jsonl");
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      lines.push_back(text.substr(begin, end - begin));
      if (end == std::string::npos) break;
      begin = end + 1;
    }
    return lines;
  }

  /// Checks that the log has one training line for every step from 1 to `steps`, in order.
  static void expect_whole_log(const std::filesystem::path& run, std::int64_t steps) {
    std::int64_t next = 1;
    for (const std::string& line : log_lines(run)) {
      const Config json = Config::parse(line, "log.jsonl");
      if (!json.has("loss")) continue;
      EXPECT_EQ(json.required_integer("step"), next++);
    }
    EXPECT_EQ(next, steps + 1);
  }

  /// The message with which the run is refused.
  std::string refusal_of(const Recipe& r, const std::filesystem::path& init = {}) const {
    return error_of([&] { train(r, {.output = folder_ / "refused", .init = init}); });
  }

  /// Trains into `straight`, and into `broken` with stops after steps 3 and 6, each time resumed.
  static void train_twice(const Recipe& r, const std::filesystem::path& straight,
                          const std::filesystem::path& broken, const std::filesystem::path& init = {}) {
    train(r, {.output = straight, .init = init});
    std::atomic<bool> stop = false;
    TrainOptions options{.output = broken, .resume = true, .init = init};
    options.stop = &stop;
    options.on_progress = [&](const ProgressEvent& e) { stop = e.step == 3 || e.step == 6; };
    for (TrainResult result{.stopped = true}; result.stopped; options.init.clear()) {
      stop = false;
      result = train(r, options);
    }
  }

  TemporaryFolder folder_;
};

}  // namespace heed
