// The input of analyses: a model with its tokenizer; texts, images, sounds or the rows of a prompts file; and
// the expected prediction of each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heed/export.h"
#include "heed/inspect/metric.h"
#include "heed/inspect/record.h"
#include "heed/models/model.h"
#include "heed/open/loaded_model.h"
#include "heed/open/subject.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

/// A model as analyses use it. Threads: several may read one at once.
struct AnalyzedModel {
  /// `name` is for titles. Throws Error for an encoder-decoder of images or sounds, and for files that are
  /// missing or malformed.
  AnalyzedModel(LoadedModel opened, std::string name);

  LoadedModel opened;
  std::string name;
  const Model* model;  ///< the model of `opened`; for a model of texts and images, its image tower

  bool reads_files() const { return model->input().kind != InputKind::tokens; }
  /// `text`, `image` or `sound`.
  const char* reads() const;
  /// Null for a model that reads files.
  const Tokenizer* tokenizer() const { return reads_files() ? nullptr : &opened.tokenizer(); }
  /// Throws OptionError if an option for texts is given for a model that reads files.
  void refuse_for_files(const char* option, bool given) const;
  /// The names of tokens as the tokenizer has them.
  std::vector<std::string> tokens(const std::vector<std::int64_t>& ids) const;
  /// Tokens as readers see them: one mark stands for a space, whatever the tokenizer's mark is.
  std::vector<std::string> shown(const std::vector<std::string>& tokens) const;
  std::string shown(std::int64_t id) const;
};

/// A row of a prompts file: a text, and the token that it should predict.
struct Prompt {
  std::string where;  ///< FILE:LINE
  std::string clean;
  std::optional<std::string> corrupted = {}, target = {}, a = {}, b = {};
};
/// Reads .jsonl (an object in each line) or .tsv and .csv (a header, then rows) with the keys or columns
/// `clean`, `corrupted`, `target`, `A` and `B`; all but `clean` may be missing or empty. Throws Error naming
/// file, line and key, and OptionError for another ending.
std::vector<Prompt> read_prompts(const std::filesystem::path& file);

/// One text, image or sound as inputs of Model::forward(), one row.
struct AnalyzedInput {
  TensorMap inputs;
  std::string title;
  /// For a text. `ids` are the tokens of the stack that predicts (the target of an encoder-decoder);
  /// `source_ids` are the tokens of the text.
  std::vector<std::int64_t> ids = {}, source_ids = {};
  std::vector<std::string> parts = {};        ///< for a file: the names of its positions
  std::string where = {};                     ///< for a prompt: its row
  std::optional<std::string> a = {}, b = {};  ///< for a prompt: the tokens of its metric
};
/// Throws OptionError if an encoder-decoder has no target, or another model has one. Throws Error for a text
/// without tokens.
AnalyzedInput text_input(const AnalyzedModel& model, const std::string& text,
                         const std::optional<std::string>& target = {});
/// Token ids, of a model without an encoder.
AnalyzedInput ids_input(const std::vector<std::int64_t>& ids, std::string title);
/// Throws Error naming the file.
AnalyzedInput file_input(const AnalyzedModel& model, const std::string& file);
/// The clean texts. `target` is for prompts that have none of their own. Throws Error naming the row.
std::vector<AnalyzedInput> prompt_inputs(const AnalyzedModel& model, std::span<const Prompt> prompts,
                                         const std::optional<std::string>& target = {});
/// Calls `measure` with each input. An error of a prompt names its row.
void for_each_input(std::span<const AnalyzedInput> inputs,
                    const std::function<void(const AnalyzedInput& input)>& measure);

/// The kind of attention with this name; an empty name means the self-attention of the stack that predicts.
/// Throws OptionError for a kind that the model lacks, and Error, as `where`, for a recurrent model.
AttentionKind analyzed_kind(const std::string& kind, const Model& model, const char* where);
/// The index of `kind` in `kinds`. Throws OptionError that names them.
std::size_t index_of_kind(const std::string& kind, const std::vector<std::string>& kinds);

/// The labels of a classifier or tagger; empty for other models.
std::vector<std::string> labels_of(const Model& model);
/// The labels of a classifier. Throws Error, as `where`, for another model.
std::vector<std::string> required_labels(const AnalyzedModel& model, const char* where);
/// The name of a label, or its number.
std::string label_name(const std::vector<std::string>& labels, std::int64_t label);
/// The label of the largest logit.
std::int64_t predicted_label(const AnalyzedModel& model, const TensorMap& inputs);

/// A token or a label, as users name it.
struct TokenChoice {
  std::optional<std::string> token = {};  ///< a text of one token; for a classifier, a label or its number
  std::optional<std::string> id = {};     ///< a token id, or the number of a label
  bool given() const { return token || id; }
};

/// A metric, as users name it. A prompt's own tokens, A and B, replace `token` and `other`.
struct MetricChoice {
  std::optional<MetricKind> kind = {};
  TokenChoice token = {};
  std::optional<std::string> other = {};  ///< given as the first is
  std::optional<std::int64_t> position = {};
};
/// `loss`, `logit`, `logit-diff`, `probability`, `kl`: the words for metrics, in the order of MetricKind.
const std::vector<std::string>& metric_names();
std::string name_of(MetricKind kind);
/// "logit difference", with the tokens: "logit difference of ·Paris and ·Rome".
std::string text_of(const LogitMetric& metric, const AnalyzedModel& model);
/// The sign of a metric's change when something useful is removed: -1 for metrics that fall, 1 for a loss or
/// divergence, which grows.
double sign_of_harm(MetricKind kind);

/// The id of a text that is one token. Throws OptionError for any other.
std::int64_t single_token(const Tokenizer& tokenizer, const std::string& text, const char* option);
/// The id of a token or the number of a label; `choice.given()`. Throws OptionError for what the model does
/// not have, and for two ways at once. `tokenizer` may be null.
std::int64_t chosen_id(const TokenChoice& choice, const Model& model, const Tokenizer* tokenizer);

/// The metric of an input. If no kind is chosen: the logit difference of two tokens, the logit of one, or
/// `without` if there are none. If no position is chosen, a masked language model is measured at the first
/// mask. Throws OptionError; for a prompt, Error naming its row.
LogitMetric metric_of(const MetricChoice& choice, const AnalyzedModel& model, const AnalyzedInput& input,
                      MetricKind without);
/// The input with its metric. A loss without a token gets labels: the text's own tokens, or the label that
/// the model predicts.
MeasuredInput measured_input(const MetricChoice& choice, const AnalyzedModel& model,
                             const AnalyzedInput& input, MetricKind without);
/// Throws OptionError unless the position is one of `count`.
void check_position_option(const char* option, std::int64_t position, std::size_t count);

/// A head of a layer, or its feed-forward network.
struct LayerPart {
  std::int64_t layer = 0, head = 0;  ///< head -1: the feed-forward network
};
/// Parses `5.1` and `5.ff`; nothing for another text.
std::optional<LayerPart> parse_layer_part(const std::string& text);
/// Parses a head, `5.1`. Throws OptionError.
LayerPart parse_head(const std::string& text, const char* option = "head");

/// Called while an analysis runs, with the number of `passes`, `layers`, … that are done, and the total.
using AnalysisProgress = std::function<void(std::int64_t done, std::int64_t total, const char* what)>;

}  // namespace heed
