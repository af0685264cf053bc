// Recordings and what is said in them, for training and evaluating models of speech.
#pragma once

#include "data/labeled_data.h"

namespace heed {

/// Paths of sound files, as texts, and what is said in them, as the one label, in data.format: tsv or csv
/// (data.header, source_column, target_column), jsonl (source_key, target_key), or `folders`: a folder with
/// metadata.csv or metadata.jsonl, in which file_name is the path and target_key the text, as Hugging Face's
/// audiofolder. Paths start at the folder of the file. Those without text are skipped. Throws Error naming
/// file and line.
LabeledTexts read_recordings(const std::filesystem::path& path, const DataOptions& data,
                             const std::filesystem::path& folder);

}  // namespace heed
