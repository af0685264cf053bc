// The part of heed evaluate that scores translations by the length of their source.
#pragma once

#include <string>
#include <vector>

#include "heed/io/json.h"
#include "heed/score/bleu.h"

namespace heed::cli {

struct ScoredLengths {
  std::string name;  ///< of the translations, in the picture
  std::vector<LengthGroup> groups;
};

/// One line of text for each group.
std::string lengths_text(const std::vector<LengthGroup>& groups);
/// The member `by_length`, a list of objects.
void lengths_json(JsonWriter& json, const std::vector<LengthGroup>& groups);
/// Writes an SVG: BLEU over the mean length of each group, one line for each of the translations. Groups of
/// fewer than 1 % of the lines are left out.
void draw_lengths(const std::string& file, const std::vector<ScoredLengths>& scored);

}  // namespace heed::cli
