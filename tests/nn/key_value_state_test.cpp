// Keys and values in pages: any schedule of appending, reordering, joining, copying and forgetting against
// rows that are written out one by one; what is shared and what it takes; attention to pages against that to
// one tensor.
#include "nn/key_value_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "heed/ops.h"
#include "reference/gradient_check.h"

namespace heed {
namespace {

using reference::random_tensor;

constexpr std::int64_t kHeads = 2, kKeyWidth = 3, kValueWidth = 2, kPage = kernels::kAttentionPage;

// Rows of tokens, each of which stands for its key and its value.
using Rows = std::vector<std::vector<float>>;

// [R, K, T, width] in which every number of a token is the token, and those of other heads its negative.
Tensor numbers_of(const Rows& rows, std::int64_t width) {
  const std::int64_t time = std::ssize(rows.front());
  const Tensor all = Tensor::zeros({std::ssize(rows), kHeads, time, width});
  float* to = all.data<float>();
  for (const auto& row : rows) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      for (const float token : row) to = std::fill_n(to, width, head == 0 ? token : -token);
    }
  }
  return all;
}

// A state, and what it must hold.
struct Checked {
  KeyValueState state;
  Rows rows;

  SequenceLengths lengths() const {
    SequenceLengths lengths;
    for (const auto& row : rows) {
      lengths.each.push_back(std::ssize(row));
      lengths.longest = std::max(lengths.longest, std::ssize(row));
    }
    return lengths;
  }
  void append(const Rows& more) {
    state.append(numbers_of(more, kKeyWidth), numbers_of(more, kValueWidth), lengths(), CacheDType::f32);
    for (std::size_t row = 0; row < rows.size(); ++row)
      rows[row].insert(rows[row].end(), more[row].begin(), more[row].end());
  }
  void reorder(const std::vector<std::int64_t>& from) {
    RowReorder order{.from = from, .old_rows = std::ssize(rows)};
    Rows taken;
    for (std::size_t row = 0; row < from.size(); ++row) {
      const auto& parent = rows[static_cast<std::size_t>(from[row])];
      std::int64_t common = 0;
      if (row < rows.size())
        common = std::mismatch(parent.begin(), parent.end(), rows[row].begin(), rows[row].end()).first -
                 parent.begin();
      order.lengths.push_back(std::ssize(parent));
      order.common.push_back(common);
      taken.push_back(parent);
    }
    state.reorder(order);
    rows = std::move(taken);
  }
  void expect_held() const {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto length = std::ssize(rows[row]), r = static_cast<std::int64_t>(row);
      const auto own = [&](const Tensor& all) {
        return slice(all, 0, r, r + 1).contiguous().to_vector<float>();
      };
      ASSERT_EQ(own(state.keys(length)), numbers_of({rows[row]}, kKeyWidth).to_vector<float>()) << row;
      ASSERT_EQ(own(state.values(length)), numbers_of({rows[row]}, kValueWidth).to_vector<float>()) << row;
    }
  }
};

TEST(KeyValueState, HoldsItsRowsThroughAnySchedule) {
  std::mt19937 random(5);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  float next = 1;
  const auto tokens = [&](std::size_t count, std::int64_t time) {
    Rows more(count);
    for (auto& row : more) {
      for (std::int64_t t = 0; t < time; ++t) row.push_back(next++);
    }
    return more;
  };
  std::vector<std::unique_ptr<Checked>> all;
  for (int step = 0; step < 800; ++step) {
    if (all.size() == 6) all.erase(all.begin() + below(6));
    if (all.empty() || below(20) == 0) {
      all.push_back(std::make_unique<Checked>());
      all.back()->rows.resize(static_cast<std::size_t>(1 + below(3)));
      all.back()->append(tokens(all.back()->rows.size(), 1 + below(200)));
    }
    Checked& one = *all[static_cast<std::size_t>(below(std::ssize(all)))];
    const std::int64_t rows = std::ssize(one.rows);
    switch (below(5)) {
      case 0: {
        std::vector<std::int64_t> from;
        for (std::int64_t row = 0; row < 1 + below(5); ++row) from.push_back(below(rows));
        one.reorder(from);
        break;
      }
      case 1: {  // a copy, which the first goes on beside or joins
        const std::int64_t row = below(rows), length = std::ssize(one.rows[static_cast<std::size_t>(row)]);
        const std::int64_t kept = 1 + below(length);
        auto copy = std::make_unique<Checked>();
        const auto made = one.state.copy_row(row, length, kept);
        copy->state.join(*made, {});
        const auto& whole = one.rows[static_cast<std::size_t>(row)];
        copy->rows = {{whole.begin(), whole.begin() + kept}};
        if (rows < 6 && below(2) == 0) {
          one.state.join(copy->state, {});
          one.rows.push_back(copy->rows.front());
        }
        all.push_back(std::move(copy));
        break;
      }
      case 2: {  // forgets the last tokens
        std::int64_t least = std::numeric_limits<std::int64_t>::max();
        for (const auto& row : one.rows) least = std::min(least, std::ssize(row));
        const std::int64_t kept = least - below(std::min<std::int64_t>(least, 5));
        one.state.truncate(kept);
        for (auto& row : one.rows) row.resize(static_cast<std::size_t>(kept));
        break;
      }
      default: one.append(tokens(one.rows.size(), below(4) == 0 ? 1 + below(150) : 1));
    }
    one.expect_held();
    for (const auto& each : all) {
      if (step % 20 == 0) each->expect_held();
    }
  }
}

TEST(KeyValueState, SharesPagesUntilTheyAreWritten) {
  Checked one{.state = {}, .rows = Rows(1)};
  Rows tokens(1, std::vector<float>(static_cast<std::size_t>(2 * kPage + 5)));
  for (float next = 1; float& token : tokens.front()) token = next++;
  one.append(tokens);
  const auto copy = one.state.copy_row(0, 2 * kPage + 5, kPage + 3);
  const auto& more = static_cast<const KeyValueState&>(*copy);
  const auto pages = one.state.pages().front();
  EXPECT_EQ(more.pages().front(), (std::vector<const KeyValuePage*>{pages[0], pages[1]}));
  one.state.join(more, {});
  one.rows.push_back({tokens.front().begin(), tokens.front().begin() + kPage + 3});
  EXPECT_EQ(one.state.pages()[1], more.pages().front());
  one.append({{-1}, {-2}});  // the second writes to a page that the first and the copy have
  one.expect_held();
  EXPECT_EQ(one.state.pages().front(), pages);
  EXPECT_EQ(one.state.pages()[1][0], pages[0]);
  EXPECT_NE(one.state.pages()[1][1], pages[1]);
  // Bytes are those of rows: each counts what it shares.
  constexpr std::int64_t kPosition = kHeads * (kKeyWidth + kValueWidth) * 4;
  EXPECT_EQ(copy->bytes(), static_cast<std::size_t>(2 * kPage * kPosition));
}

TEST(KeyValueState, AttentionToPagesIsThatToOneTensor) {
  const std::vector<std::int64_t> past{0, 5, 127, 128, 700};
  const auto rows = std::ssize(past);
  for (const CacheDType dtype : kCacheDTypes) {
    for (const auto& sizes : {std::array<std::int64_t, 3>{1, 6, 64}, {3, 4, 20}, {40, 2, 16}}) {
      const std::int64_t time = sizes[0], heads = sizes[1], width = sizes[2];
      KeyValueState state;
      const auto random = [&](std::int64_t of, std::int64_t count, std::uint64_t seed) {
        return random_tensor({rows, of, count, width}, seed).to(DType::f32);
      };
      const std::int64_t longest = past.back() + time;
      const Tensor k = random(2, longest, 1), v = random(2, longest, 2), q = random(heads, time, 3);
      std::vector<std::int64_t> ends;
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t end = past[static_cast<std::size_t>(row)] + time;
        KeyValueState one;
        const auto own = [&](const Tensor& x) { return slice(slice(x, 0, row, row + 1), 2, 0, end); };
        one.append(own(k), own(v), {}, dtype);
        if (row == 0) {
          state.append(own(k), own(v), {}, dtype);
        } else {
          state.join(one, {});
        }
        ends.push_back(end);
      }
      AttentionOptions options;
      options.causal = true;
      options.key_lengths = Tensor::from(ends, {rows});
      options.query_offsets = Tensor::from(past, {rows});
      const Tensor got = paged_attention(q, state.pages(), longest, options);
      const Tensor want =
          scaled_dot_product_attention(q, state.keys(longest), state.values(longest), options);
      EXPECT_EQ(got.to_vector<float>(), want.to_vector<float>()) << name_of(dtype) << " " << time;
      EXPECT_TRUE(std::isfinite(sum(got).item()));
    }
  }
}

}  // namespace
}  // namespace heed
