// What lens, heads, patch and why share: the model with what makes its inputs, texts and files as inputs,
// tokens, and tables as results.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/input/model_commands.h"
#include "heed/inspect/analysis.h"
#include "heed/inspect/record.h"
#include "heed/plot/heat_table.h"
#include "tasks/file_input.h"

namespace heed::cli {

/// A model, with a tokenizer if it reads text, else with what makes its inputs of files.
struct AnalyzedModel {
  std::unique_ptr<Model> loaded;
  const Model* model = nullptr;  ///< `loaded`; of a model of texts and images, the tower for images
  std::unique_ptr<Tokenizer> tokenizer = nullptr;
  tasks::FileProcessor processor = {};

  bool reads_files() const { return model->input().kind != InputKind::tokens; }
  /// `text`, `image` or `sound`.
  const char* reads() const;
};

/// Throws Error for an encoder-decoder of images or sounds.
AnalyzedModel load_analyzed(const ModelChoice& choice, const Globals& globals);

/// An image or a sound as named inputs, with the names of its positions.
struct AnalyzedFile {
  TensorMap inputs;
  std::vector<std::string> parts;
};
AnalyzedFile analyzed_file(const AnalyzedModel& model, const std::string& file);

/// The labels of a classifier of files. Throws Error, as `where`, for another model.
const std::vector<std::string>& labels_of(const AnalyzedModel& model, const char* where);
/// The label of the largest logit.
std::int64_t predicted_label(const AnalyzedModel& model, const TensorMap& inputs);
/// The name of a label, or its number.
std::string label_name(const std::vector<std::string>& labels, std::int64_t label);

/// Throws UsageError for an option of texts that was given for a file.
void refuse_text_option(const AnalyzedModel& model, const char* option, bool given);

/// One text as named inputs. `ids` are those of the stack that predicts, the target's in an encoder-decoder;
/// `source_ids` those of the text.
struct AnalyzedText {
  TensorMap inputs;
  std::vector<std::int64_t> ids, source_ids;
};
/// What a figure is of: "gpt2: The cat sat".
std::string subtitle_of(const ModelChoice& choice, const std::string& text);

/// The tokens of ids.
std::vector<std::string> tokens_of(const std::vector<std::int64_t>& ids, const Tokenizer& tokenizer);
/// Throws UsageError where an encoder-decoder has no target, or another model has one.
AnalyzedText analyzed_text(const AnalyzedModel& model, const std::string& text,
                           const std::optional<std::string>& target);
/// The same for token ids of a model without an encoder.
AnalyzedText analyzed_ids(const std::vector<std::int64_t>& ids);

/// The id of a text that is one token. Throws UsageError naming `option` for any other.
std::int64_t single_token(const Tokenizer& tokenizer, const std::string& text, const char* option);

/// Returns the index of `kind` in `kinds`, those that the model has. Throws UsageError that names them.
std::size_t index_of_kind(const std::string& kind, const std::vector<std::string>& kinds);

/// The kind of attention of that name; of an empty one, the self-attention of the stack that predicts. Throws
/// UsageError for a kind that the model does not have, and Error, as `where`, for a recurrent model.
AttentionKind analyzed_kind(const std::string& kind, const Model& model, const char* where);

/// The file that a table goes to, and how it looks there as a figure.
struct TableOutput {
  std::filesystem::path file = {};
  std::optional<std::string> title = {};
  bool no_title = false;
  std::string width = {};  ///< 640, 640px or 85mm
};
/// Adds --output, which is what `description` says, --title, --no-title and --width.
void add_table_output(CLI::App& command, TableOutput& output, const char* description);
/// What most analyses write: figures, and the numbers of tables.
inline const std::vector<std::string> kTableEndings{".svg", ".pdf", ".png", ".csv", ".npz"};
inline constexpr const char* kTableOutput =
    "Write a figure (.svg, .pdf, .png), or the numbers of the table (.csv, NumPy's .npz)";
/// Throws UsageError for a file with another ending, for the options of a figure without one, and for another
/// width.
void check_table_output(const TableOutput& output, const std::vector<std::string>& endings = kTableEndings);
/// Prints the tables, or `json` where that is asked for, and writes the figure or its numbers where there is
/// a file.
void show_tables(const std::vector<HeatTable>& tables, const HeatTable& figure, const std::string& json,
                 const TableOutput& output, const Globals& globals);
/// The same of a table that is its own figure.
void show_table(const HeatTable& table, const std::string& json, const TableOutput& output,
                const Globals& globals);

}  // namespace heed::cli
