// Numbers that answers hold as f32 in base64.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "core/base64.h"

namespace heed::explore_test {

inline std::vector<float> floats_of(const std::string& text) {
  const std::string bytes = decode_base64(text).value();
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return numbers;
}

}  // namespace heed::explore_test
