// Tables of expected errors of the command.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "command.h"

namespace heed::cli_test::bad_input {  // here a command is its words; in other tests, its result

struct Case {
  int status;
  Words words;
  std::string told;  ///< part of the message
};

inline void expect_errors(const std::vector<Case>& cases) {
  for (const Case& c : cases) expect_error(c.status, c.words, c.told);
}

inline Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
inline Words training(const Words& more) {
  return with(with(tiny_training(), {"--quiet", "--output", "/nowhere/run"}), more);
}
inline std::string fixture(const std::string& name) { return std::string(HEED_FIXTURES) + "/" + name; }

}  // namespace heed::cli_test::bad_input
