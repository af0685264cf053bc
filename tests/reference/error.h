// Expecting that a call throws, and what its message says. As every failure is an Error, the message tells
// one from another.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "heed/error.h"

namespace heed {

/// The message of the `Thrown` that `action` throws, or "no error".
template <class Thrown = Error, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "no error";
}

/// A part of a message, or a matcher of all of it.
template <class Expected>
::testing::Matcher<std::string> message_with(const Expected& expected) {
  if constexpr (std::is_convertible_v<Expected, std::string>)
    return ::testing::HasSubstr(expected);
  else
    return expected;
}

}  // namespace heed

/// Expects that the statement throws an Error whose message contains the text `expected`, or matches it.
#define EXPECT_ERROR(statement, expected) \
  EXPECT_THAT(::heed::error_of([&] { statement; }), ::heed::message_with(expected))
