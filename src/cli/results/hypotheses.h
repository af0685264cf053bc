// The output of generate, translate and caption for each input.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "heed/generate/search.h"

namespace heed::cli {

/// A text with its line ends written as \n, for output of one line a result.
std::string escape_newlines(const std::string& text);

/// Prints one input's results. As JSON: the best as an object on one line, which lists all of them if several
/// were requested; `full_texts`, if given, are written too. As text: the best on one line, or `INDEX ||| TEXT
/// ||| SCORE` for each if several were requested.
void print_hypotheses(bool json, std::size_t index, const std::vector<Hypothesis>& hypotheses,
                      const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options,
                      const std::vector<std::string>& full_texts = {});

}  // namespace heed::cli
