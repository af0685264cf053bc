// What several commands write: generated texts for each input, and pictures of attention.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "heed/generate/search.h"
#include "heed/plot/picture.h"

namespace heed::cli {

/// A text with its line ends written as \n, for output of one line a result.
std::string escape_newlines(const std::string& text);

/// Prints one input's results. As JSON: the best as an object on one line, which lists all of them if several
/// were requested; `full_texts`, if given, are written too. As text: the best on one line, or `INDEX ||| TEXT
/// ||| SCORE` for each if several were requested.
void print_hypotheses(bool json, std::size_t index, const std::vector<Hypothesis>& hypotheses,
                      const std::vector<std::optional<std::string>>& texts, const GenerationOptions& options,
                      const std::vector<std::string>& full_texts = {});

/// Throws UsageError unless the file's extension is supported: .html .svg .pdf .png .json .npy. Throws Error
/// if its folder is missing.
void check_picture_file(const std::filesystem::path& file);
/// Writes a picture in the format of the file's extension.
void write_picture(const AttentionPicture& picture, const std::filesystem::path& file,
                   const FigureStyle& style = {});
/// Returns FILE with -N before its extension, where N = `index` + 1 counts several files from 1.
std::filesystem::path numbered(const std::filesystem::path& file, std::size_t index);

}  // namespace heed::cli
