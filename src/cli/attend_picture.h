// From recorded attention to the picture of heed attend: maps of each measure, and what the page shows
// beside.
#pragma once

#include <optional>
#include <string>

#include "cli/attend_input.h"
#include "cli/pictures.h"
#include "heed/inspect/record.h"
#include "heed/plot/picture.h"

namespace heed::cli {

/// Adds the maps of `measure`: weights, norms, mean, max, gradient, or rollout, which takes the record of all
/// layers. Throws UsageError for heads that do not exist.
void add_measure(AttentionPicture& picture, const AttentionRecord& record, const MapChoice& choice,
                 const std::string& measure);

/// Adds what the page shows beside the maps: norms of values, candidates, the image; and queries and keys,
/// unless there are more than `most_vectors` numbers of them.
void add_page_facts(AttentionPicture& picture, const AttentionRecord& record, const AttendInput& input,
                    const AttendSource& source, std::int64_t most_vectors);

/// Runs the model once per head (no `heads`: all) of the record's layers and adds what its logits lose: at
/// each position that of the token that follows, else of the most probable one.
void add_ablations(AttentionPicture& picture, const AttentionRecord& record,
                   const std::vector<std::int64_t>& heads, const AttendInput& input,
                   const AttendSource& source, bool shows_progress);

/// The logit that --show gradient explains: at --position (the mask token's, else the last), of --token (the
/// one that follows in the text, else the most probable); empty: none. Throws UsageError for those that do
/// not exist, Error for a model without logits.
LogitChoice chosen_logit(std::optional<std::int64_t> position, const std::string& token,
                         const AttendInput& input, const AttendSource& source);

/// The token or label that a logit is of.
std::string name_of(std::int64_t token, const AttendSource& source);

}  // namespace heed::cli
