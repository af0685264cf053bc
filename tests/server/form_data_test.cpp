// Forms: what clients send, and what is refused.
#include "server/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "reference/error.h"

namespace heed::server {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=xyz";

TEST(FormData, FieldsAndFiles) {
  const std::string bytes("\0\r\n--xy\xff\r\n", 11);
  const std::string body =
      "--xyz\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n"
      "--xyz\r\ncontent-disposition: Form-Data; filename=\"a \\\"b\\\".wav\"; name=file\r\n"
      "Content-Type: audio/wav\r\n\r\n" +
      bytes +
      "\r\n--xyz\r\nContent-Disposition: form-data; name=\"empty\"\r\n\r\n\r\n"
      "--xyz--\r\n";
  const auto parts = parse_form(kType, body);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].name, "model");
  EXPECT_EQ(parts[0].content, "whisper");
  EXPECT_FALSE(parts[0].file);
  EXPECT_EQ(parts[1].name, "file");
  EXPECT_EQ(parts[1].file, "a \"b\".wav");
  EXPECT_EQ(parts[1].content, bytes);
  EXPECT_EQ(parts[2].content, "");
}

TEST(FormData, TypesAndBoundaries) {
  EXPECT_TRUE(is_form("Multipart/Form-Data; boundary=a"));
  EXPECT_FALSE(is_form("application/json"));
  EXPECT_FALSE(is_form(""));
  EXPECT_TRUE(parse_form("multipart/form-data; charset=utf-8; Boundary=\"a b\"", "--a b--").empty());
}

TEST(FormData, WhatIsNotWholeIsRefused) {
  const std::string head = "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n";
  struct Case {
    std::string type, body;
    const char* told;
  };
  for (const Case& one : std::vector<Case>{
           {"application/json", "{}", "multipart/form-data"},
           {"multipart/form-data", "--xyz--", "boundary of 1 to 70"},
           {"multipart/form-data; boundary=\"xyz", "--xyz--", "boundary of 1 to 70"},
           {"multipart/form-data; boundary=" + std::string(71, 'a'), "", "boundary of 1 to 70"},
           {kType, "", "begins with its boundary"},
           {kType, "text\r\n--xyz--", "begins with its boundary"},
           {kType, "--xyz", "line end"},
           {kType, "--xyz\n", "line end"},
           {kType, "--xyz\r\n", "empty line"},
           {kType, "--xyz\r\nContent-Disposition\r\n\r\nb\r\n--xyz--", "empty line"},
           {kType, "--xyz\r\n\r\nb\r\n--xyz--", "Content-Disposition"},
           {kType, "--xyz\r\nContent-Disposition: file; name=a\r\n\r\nb\r\n--xyz--", "Content-Disposition"},
           {kType, "--xyz\r\nA: " + std::string(9000, 'a') + "\r\n\r\nb\r\n--xyz--", "empty line"},
           {kType, head + "b", "boundary after each part"},
           {kType, head + "b\n--xyz--", "boundary after each part"},
           {kType, head + "b\r\n--xyz", "line end"}}) {
    EXPECT_ERROR(parse_form(one.type, one.body), one.told);
  }
  std::string many;
  for (int i = 0; i < 65; ++i) many += head + "b\r\n";
  EXPECT_ERROR(parse_form(kType, many + "--xyz--"), "at most 64 parts");
}

}  // namespace
}  // namespace heed::server
