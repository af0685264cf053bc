// The data that a task reads: the section [data] of a recipe. docs/recipes.md lists every key.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heed/export.h"

namespace HEED_API heed {

struct DataOptions {
  /// tsv, csv, lines, jsonl, chat, text, labelled, conll, squad, folders; empty: the task's default
  std::string format{};
  std::filesystem::path train;  ///< a file, or a folder of files
  std::filesystem::path dev;
  std::filesystem::path test;
  std::filesystem::path corpus;        ///< embedding: texts that development queries also search
  std::filesystem::path train_source;  ///< lines
  std::filesystem::path train_target;
  std::filesystem::path dev_source;
  std::filesystem::path dev_target;
  std::filesystem::path test_source;
  std::filesystem::path test_target;
  bool header = false;             ///< tsv and csv: the first row of a file is not read
  std::int64_t source_column = 1;  ///< tsv and csv, counted from 1; the path of a recording
  std::int64_t target_column = 2;
  std::int64_t text_column = 2;     ///< of tsv and csv: the text that is classified, or the path of the image
  std::int64_t pair_column = 0;     ///< the second text of a pair; 0: none
  std::int64_t label_column = 1;    ///< its label, or labels separated by commas (multi-label)
  std::int64_t weight_column = 0;   ///< the weight of its loss; 0: all weigh the same
  std::string text_key = "text";    ///< jsonl
  std::string pair_key{};           ///< jsonl; empty: none
  std::string label_key = "label";  ///< jsonl
  std::string weight_key{};         ///< jsonl; empty: all weigh the same
  std::string source_key = "source";  ///< jsonl: text, or a list of sentences; of recordings by default audio
  /// jsonl; of recordings by default text, and in the metadata of a folder transcription
  std::string target_key = "target";
  /// jsonl: what a list under target_key is: references (training takes the first) or sentences of one
  /// text; empty: references for seq2seq, sentences for translation.
  std::string target_list{};
  std::string prefix{};            ///< pairs: text before every source
  std::int64_t max_source = 0;     ///< pairs: longer sources are truncated to this many tokens; 0: not
  std::int64_t max_target = 0;     ///< pairs: the same of targets
  std::string word_prefix{};       ///< conll: removed where words begin with it
  std::string documents = "file";  ///< text: file, paragraph (separated by blank lines) or line
  /// causal-lm, of documents that are kept apart: what becomes of one longer than task.context: truncate,
  /// skip or split; empty: truncate where answers are learned and documents are no files, else split
  std::string longer{};
  double bad_share = 0.1;       ///< chat: at most this share of the lines may be unusable, and is skipped
  double dev_share = 0;         ///< causal-lm, masked-lm: share of the end of the training texts held out
  std::int64_t folds = 0;       ///< labeled texts: cross-validation; fold `fold` is the test set
  std::int64_t fold = 0;        ///< 0 .. folds - 1
  std::int64_t dev_size = 0;    ///< source texts held out from train if there is no dev file
  std::int64_t test_size = 0;   ///< the same for the test set
  std::int64_t split_seed = 1;  ///< seed of this selection, and of data.max_pairs and eval.max_pairs
  std::int64_t max_tokens = 0;  ///< pairs with a longer side are skipped; 0: the model's number of positions
  double max_seconds = 30;      ///< transcription: longer recordings are skipped
  double max_ratio = 0;         ///< longer side / shorter side, in tokens; 0: no limit
  std::int64_t max_pairs = 0;   ///< train on a random selection of this size; 0: all
  std::string source_language;  ///< recorded with the model, e.g. en
  std::string target_language;
};

}  // namespace heed
