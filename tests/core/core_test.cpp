#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/strings.h"
#include "heed/buffer.h"
#include "heed/dtype.h"
#include "heed/error.h"
#include "heed/random.h"
#include "heed/shape.h"
#include "heed/version.h"
#include "reference/error.h"

namespace heed {
namespace {

TEST(Strings, AreJoinedTrimmedAndSpelled) {
  struct Named {
    const char* name;
  };
  const std::vector<Named> named = {{"a"}, {""}, {"c"}};
  EXPECT_EQ(joined(named, ", ", &Named::name), "a, , c");
  EXPECT_EQ(joined(std::vector<std::string>{}), "");
  EXPECT_EQ(joined_keys(std::map<std::string, int>{{"b", 1}, {"a", 2}}, "|"), "a|b");
  EXPECT_EQ(joined_numbers({2, -3}), "2, -3");
  EXPECT_EQ(alternatives({"a", "b", "c"}), "a, b or c");
  EXPECT_EQ(trimmed(" \ta b\n"), "a b");
  EXPECT_EQ(ascii_lower("AZ[@\xC3\x84"), "az[@\xC3\x84");
  EXPECT_TRUE(is_ascii_letter_or_digit('Z') && is_ascii_letter_or_digit('0'));
  EXPECT_FALSE(is_ascii_letter_or_digit('[') || is_ascii_letter_or_digit('\xE4'));
  std::string hex;
  append_hex(hex, 0xA7);
  append_hex(hex, 0x0F, kUpperHexDigits);
  EXPECT_EQ(hex, "a70F");
}

TEST(Error, AFailedAssertionIsNoError) {
  const auto fail = [](int heads) { HEED_ASSERT(heads > 0, "a layer has heads"); };
  EXPECT_NO_THROW(fail(1));
  EXPECT_THAT(error_of<InternalError>([&] { fail(0); }),
              testing::MatchesRegex("internal error: a layer has heads \\(heads > 0\\) at "
                                    ".*core_test.cpp:[0-9]+"));
}

TEST(Error, ACanceledCallIsNoError) {
  try {
    throw Canceled();
  } catch (const Error&) {
    FAIL() << "taken for an error of the user";
  } catch (const std::exception& canceled) {
    EXPECT_STREQ(canceled.what(), "canceled: the caller set the stop flag");
  }
}

TEST(Version, OfHeadersAndLibraryAreEqual) {
  const auto text = [](int number) { return std::to_string(number); };
  EXPECT_STREQ(version(), HEED_VERSION);
  EXPECT_EQ(text(HEED_VERSION_MAJOR) + "." + text(HEED_VERSION_MINOR) + "." + text(HEED_VERSION_PATCH),
            HEED_VERSION);
}

// Known answers of the Random123 distribution (kat_vectors, philox4x32 10 rounds).
TEST(Random, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32(0, 0, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32(~0ull, ~0ull, ~0ull),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
            (std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  const RandomStream stream = Generator(7).next();
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = stream.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.015);
  EXPECT_NEAR(squares / kCount, 1.0, 0.02);
}

TEST(DType, HalfRoundTripsEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 half;
    half.bits = static_cast<std::uint16_t>(bits);
    const float value = static_cast<float>(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(float16(value))));
    } else {
      EXPECT_EQ(float16(value).bits, half.bits);
    }
  }
}

TEST(DType, RoundsToNearestEven) {
  EXPECT_EQ(static_cast<float>(float16(2049.0f)), 2048.0f);
  EXPECT_EQ(static_cast<float>(float16(2051.0f)), 2052.0f);
  EXPECT_EQ(static_cast<float>(float16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(static_cast<float>(float16(65520.0f))));
  EXPECT_EQ(static_cast<float>(bfloat16(257.0f)), 256.0f);
  EXPECT_EQ(static_cast<float>(bfloat16(259.0f)), 260.0f);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Shape, BroadcastsAsNumPyDoes) {
  EXPECT_EQ(broadcast_shapes("add", {2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_ERROR(broadcast_shapes("add", {2, 3}, {2}),
               "add: expected shapes that broadcast, got [2, 3] and [2]");
  EXPECT_EQ((Shape{2, 3, 4})[-1], 4);
  EXPECT_ERROR((Shape{2})[1], "axis: expected one of the 1 axes of [2], got 1");
  EXPECT_ERROR((Shape{std::int64_t{1} << 62, 4}).numel(), "expected sizes whose product fits 63 bits");
}

TEST(Buffer, PoolReusesBlocksAndReportsPeak) {
  const MemoryStatistics before = memory_statistics();
  reset_peak_memory();
  { auto block = Buffer::allocate(1 << 20); }
  const std::size_t allocations = memory_statistics().system_allocations;
  { auto block = Buffer::allocate(1 << 20); }
  EXPECT_EQ(memory_statistics().system_allocations, allocations);
  EXPECT_EQ(memory_statistics().bytes_in_use, before.bytes_in_use);
  EXPECT_GE(memory_statistics().peak_bytes, before.bytes_in_use + (1 << 20));
  EXPECT_ERROR(Buffer::allocate(SIZE_MAX / 8), "memory: expected 2305843009213693952 bytes, got none");
}

TEST(Buffer, BlocksOfEveryShapeDoNotPileUp) {
  release_cached_memory();
  reset_peak_memory();
  const std::size_t before = memory_statistics().bytes_in_use;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t bytes = (20 << 20) + i * i * 7000;
    largest = std::max(largest, bytes);
    Buffer::allocate(bytes)->data()[bytes - 1] = std::byte{1};
  }
  const MemoryStatistics after = memory_statistics();
  EXPECT_EQ(after.bytes_in_use, before);
  EXPECT_LE(after.bytes_cached, largest + largest / 4 + before / 4 + (65 << 20));
  // Sizes that a cached block holds with little waste request no memory from the system.
  Buffer::allocate(largest - (1 << 20));
  EXPECT_EQ(memory_statistics().system_allocations, after.system_allocations);
  release_cached_memory();
  EXPECT_EQ(memory_statistics().bytes_cached, 0U);
}

TEST(Buffer, BlocksSideBySideAreCountedAlone) {
  const std::size_t before = memory_statistics().bytes_in_use;
  std::vector<std::shared_ptr<Buffer>> blocks;
  for (const std::size_t bytes : {1000UL, 3UL << 20, 64UL, 3UL << 20, 9UL << 20, 1UL}) {
    const auto& block = blocks.emplace_back(Buffer::allocate_side_by_side(bytes));
    EXPECT_EQ(block->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block->data()) % 64, 0U);
    std::fill_n(block->data(), bytes, static_cast<std::byte>(blocks.size()));
  }
  EXPECT_EQ(blocks[1]->data() - blocks[0]->data(), 1024);
  EXPECT_EQ(memory_statistics().bytes_in_use - before, 1065 + (15U << 20));
  blocks.erase(blocks.begin());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i]->data()[0], static_cast<std::byte>(i + 2));
    EXPECT_EQ(blocks[i]->data()[blocks[i]->bytes() - 1], static_cast<std::byte>(i + 2));
  }
  blocks.clear();
  EXPECT_EQ(memory_statistics().bytes_in_use, before);
}

// Counts its calls; its numbers are 0, 1, 2, ...
struct Counting : Buffer::Source {
  mutable int writes = 0;
  void write(std::byte* to) const override {
    ++writes;
    for (int i = 0; i < 8; ++i) to[i] = static_cast<std::byte>(i);
  }
};

TEST(Buffer, IsWrittenWhenSomebodyWantsTheAddress) {
  const auto source = std::make_shared<Counting>();
  const auto buffer = Buffer::lazy(8, source);
  EXPECT_EQ(buffer->read()->data()[3], std::byte{3});
  EXPECT_EQ(buffer->read()->data()[4], std::byte{4});
  EXPECT_TRUE(buffer->is_unwritten());
  EXPECT_FALSE(buffer->is_materialized());
  EXPECT_EQ(source->writes, 2);
  EXPECT_EQ(buffer->data()[5], std::byte{5});
  EXPECT_FALSE(buffer->is_unwritten());
  EXPECT_TRUE(buffer->is_materialized());
  buffer->data()[5] = std::byte{50};
  EXPECT_EQ(buffer->read()->data(), buffer->data());
  EXPECT_EQ(buffer->data()[5], std::byte{50});
  EXPECT_EQ(source->writes, 3);
  EXPECT_EQ(source.use_count(), 1) << "what was written once is not needed again";
  EXPECT_TRUE(Buffer::allocate(8)->is_materialized());
}

TEST(Buffer, IsWrittenByAnotherInTheSourcesPlace) {
  struct Placed : Counting {
    std::shared_ptr<Buffer> memory;
    std::shared_ptr<Buffer> place() const override { return memory; }
  };
  const auto source = std::make_shared<Placed>();
  for (const bool has_place : {false, true}) {
    source->memory = has_place ? Buffer::allocate(8) : nullptr;
    const auto buffer = Buffer::lazy(8, source);
    const auto sevens = [&](const Buffer::Source& from, std::byte* to) {
      EXPECT_EQ(&from, source.get());
      std::fill_n(to, 8, std::byte{7});
    };
    EXPECT_THROW(buffer->write_by([](const Buffer::Source&, std::byte*) { throw Error("canceled"); }), Error);
    EXPECT_TRUE(buffer->is_unwritten());
    EXPECT_TRUE(buffer->write_by(sevens));
    EXPECT_TRUE(buffer->is_materialized());
    EXPECT_EQ(buffer->data()[7], std::byte{7});
    EXPECT_EQ(buffer->data() == (has_place ? source->memory->data() : nullptr), has_place);
    EXPECT_FALSE(buffer->write_by(sevens));
  }
  EXPECT_EQ(source->writes, 0);
  const auto read = Buffer::lazy(8, source);
  EXPECT_EQ(read->read()->data(), source->memory->data());
  EXPECT_TRUE(read->is_materialized());
  EXPECT_EQ(source->writes, 1);
  EXPECT_FALSE(Buffer::allocate(8)->write_by([](const Buffer::Source&, std::byte*) { FAIL(); }));
}

TEST(Buffer, ReleasesPagesUntilSomebodyMayHaveWritten) {
  static int released = 0;
  std::byte file[8] = {};
  const auto buffer = Buffer::wrap_file(file, 8, nullptr, [](std::byte*, std::size_t) { ++released; });
  EXPECT_FALSE(buffer->is_unwritten());
  EXPECT_EQ(buffer->read()->data(), file);
  buffer->release_pages();
  EXPECT_EQ(released, 1);
  EXPECT_EQ(buffer->data(), file);
  buffer->release_pages();
  EXPECT_EQ(released, 1);
}

}  // namespace
}  // namespace heed
