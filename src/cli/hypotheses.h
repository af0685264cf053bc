// The output of generate and translate for each input.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "heed/generate/search.h"

namespace heed::cli {

/// Prints one input's results as a line of JSON: the best as the object itself, and all of them if several
/// were requested. `full_texts`, if given, are written too.
void print_json(const std::vector<Hypothesis>& hypotheses,
                const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options,
                const std::vector<std::string>& full_texts = {});

/// The same as text: the best on one line, or `INDEX ||| TEXT ||| SCORE` for each if several were requested.
void print_text(std::size_t index, const std::vector<std::optional<std::string>>& texts,
                const std::vector<Hypothesis>& hypotheses, const GenerationOptions& options);

}  // namespace heed::cli
