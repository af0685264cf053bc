// What generate and translate print for each input.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "heed/generate/search.h"

namespace heed::cli {

/// One input's results as a line of JSON: its best as the object itself, and all of them where several were
/// asked for. `full_texts`, where given, are written too.
void print_json(const std::vector<Hypothesis>& hypotheses,
                const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options,
                const std::vector<std::string>& full_texts = {});

/// The same as text: the best on a line, or `INDEX ||| TEXT ||| SCORE` for each where several were asked for.
void print_text(std::size_t index, const std::vector<std::optional<std::string>>& texts,
                const std::vector<Hypothesis>& hypotheses, const GenerationOptions& options);

}  // namespace heed::cli
