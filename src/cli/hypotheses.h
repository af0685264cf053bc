// The output of generate and translate for each input.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "heed/generate/search.h"

namespace heed::cli {

/// Prints one input's results. As JSON: the best as an object on one line, which lists all of them if several
/// were requested; `full_texts`, if given, are written too. As text: the best on one line, or `INDEX ||| TEXT
/// ||| SCORE` for each if several were requested.
void print_hypotheses(bool json, std::size_t index, const std::vector<Hypothesis>& hypotheses,
                      const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options,
                      const std::vector<std::string>& full_texts = {});

}  // namespace heed::cli
