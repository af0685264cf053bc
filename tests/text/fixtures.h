// Shared by the text tests: the fixtures, and made-up sentences.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/json.h"
#include "reference/temporary_folder.h"

namespace heed {

inline std::filesystem::path text_fixtures() { return std::filesystem::path(HEED_FIXTURES) / "text"; }

inline std::filesystem::path tokenizer_fixtures() {
  return std::filesystem::path(HEED_FIXTURES) / "tokenizers";
}

inline nlohmann::json read_vectors(const char* name) { return read_json(text_fixtures() / name); }

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
