// A block for each gradient: its parameter and number of rows, then for each row its index and its numbers.
#include "train/late_rows.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "heed/error.h"

namespace heed {
namespace {

void append_number(std::string& to, std::uint64_t number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::uint64_t take_number(std::string_view& from) {
  std::uint64_t number = 0;
  HEED_ASSERT(from.size() >= sizeof number, "rows end early");
  std::memcpy(&number, from.data(), sizeof number);
  from.remove_prefix(sizeof number);
  return number;
}

}  // namespace

void append_rows(std::string& to, std::size_t parameter, const Tensor& gradient) {
  const Tensor dense = gradient.contiguous();
  const std::int64_t columns = dense.size(1);
  const auto row = [&](std::int64_t i) { return dense.data<float>() + i * columns; };
  std::vector<std::int64_t> present;
  for (std::int64_t i = 0; i < dense.size(0); ++i) {
    if (std::any_of(row(i), row(i) + columns, [](float value) { return value != 0; })) present.push_back(i);
  }
  append_number(to, parameter);
  append_number(to, present.size());
  for (const std::int64_t i : present) {
    append_number(to, static_cast<std::uint64_t>(i));
    to.append(reinterpret_cast<const char*>(row(i)), static_cast<std::size_t>(columns) * sizeof(float));
  }
}

void add_rows(std::string_view from, const std::function<Tensor(std::size_t parameter)>& gradient_of) {
  std::vector<float> row;
  while (!from.empty()) {
    const Tensor gradient = gradient_of(take_number(from));
    row.resize(static_cast<std::size_t>(gradient.size(1)));
    const std::size_t bytes = row.size() * sizeof(float);
    for (std::uint64_t left = take_number(from); left > 0; --left) {
      float* to = gradient.data<float>() + take_number(from) * row.size();
      HEED_ASSERT(from.size() >= bytes, "rows end early");
      std::memcpy(row.data(), from.data(), bytes);
      from.remove_prefix(bytes);
      for (std::size_t i = 0; i < row.size(); ++i) to[i] += row[i];
    }
  }
}

}  // namespace heed
