// Shared by the text tests: the JSON of the fixtures, and a temporary directory.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace heed {

inline std::filesystem::path text_fixtures() { return std::filesystem::path(HEED_FIXTURES) / "text"; }

inline std::filesystem::path tokenizer_fixtures() {
  return std::filesystem::path(HEED_FIXTURES) / "tokenizers";
}

inline std::string file_content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline nlohmann::json read_vectors(const char* name) {
  return nlohmann::json::parse(file_content(text_fixtures() / name));
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-text-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

  void write(const char* name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

/// Makes reproducible sentences of words of a few syllables.
inline std::vector<std::string> made_up_sentences(int count) {
  const char* syllables[] = {"ba", "lo", "mi",        "tre", "sou", "na",
                             "ke", "vi", "\xC3\xA9t", "gra", "pon", "du"};
  std::vector<std::string> sentences;
  std::uint32_t state = 1;
  const auto next = [&state](std::uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % below;
  };
  for (int i = 0; i < count; ++i) {
    std::string sentence;
    for (std::uint32_t word = 0, words = 2 + next(6); word < words; ++word) {
      if (word > 0) sentence += ' ';
      for (std::uint32_t k = 0, parts = 1 + next(3); k < parts; ++k) sentence += syllables[next(12)];
    }
    sentences.push_back(sentence + '.');
  }
  return sentences;
}

}  // namespace heed
