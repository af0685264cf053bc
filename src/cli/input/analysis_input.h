// What the analyses share on the command line: the model, what it reads, what is measured of it, and where
// the report goes.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/input/models.h"
#include "heed/analyses/analyses.h"
#include "heed/inspect/ablation.h"

namespace heed::cli {

/// Warns of unknown settings. Throws as analyzed_model().
AnalyzedModel load_analyzed(const ModelChoice& choice, const Globals& globals);

/// A text or a file, or the rows of a file of prompts; or many of them, as arguments or as lines.
struct GivenInputs {
  std::optional<std::string> text = {}, target = {};
  std::vector<std::string> texts = {};  ///< of a command that takes many
  std::string lines = {};               ///< a file of these
  std::filesystem::path prompts = {};
  std::optional<std::int64_t> repeat = {};  ///< instead: so many random tokens, twice

  /// Adds the text, --prompts, --target and --model; without help for --prompts, the text is required.
  void add_one(CLI::App& command, const char* text_help, const char* prompts_help, ModelChoice& model);
  /// Adds many texts, --texts, --prompts, --repeat, --target and --model.
  void add_many(CLI::App& command, const char* prompts_help, ModelChoice& model);
  /// Throws UsageError, as `where`, unless there is one text or --prompts.
  void check_one(const char* where) const;
  /// Throws UsageError for two ways at once.
  void check_many() const;
  /// Of add_one(). Throws UsageError for options of texts that were given for a file.
  std::vector<AnalyzedInput> read_one(const AnalyzedModel& model, const Globals& globals,
                                      const char* where) const;
  /// Of add_many(): without any, the lines of stdin. An encoder-decoder reads the text as target, too, where
  /// there is none.
  std::vector<AnalyzedInput> read_many(const AnalyzedModel& model, const Globals& globals) const;
  /// One of them: a text, or the name of a file.
  AnalyzedInput input_of(const AnalyzedModel& model, const std::string& line, const Globals& globals) const;
  /// What a figure of them is of: a text, a file of lines or prompts, or `3 texts`.
  std::string title(const AnalyzedModel& model, const std::vector<AnalyzedInput>& inputs) const;
};

/// Adds --token and --id.
void add_token_options(CLI::App& command, TokenChoice& choice, const std::string& what,
                       const std::string& group);
/// Adds --other and --position.
void add_other_options(CLI::App& command, MetricChoice& choice, const std::string& group);
/// Adds --metric and all of these; `usual` says what is measured by default.
void add_metric_options(CLI::App& command, MetricChoice& choice, const std::string& usual);
/// Adds --kind. `which` says whose attention, and which by default.
void add_kind_option(CLI::App& command, std::string& kind, const char* form, const char* which);

/// --remove, --ablation and --reference.
struct AblationArguments {
  std::string remove;
  std::optional<Replacement> replacement;
  std::string reference;

  void add_to(CLI::App& command, const char* remove_help);
  /// Throws UsageError for --reference without a replacement that needs it.
  void check() const;
  /// The inputs that `read` makes of the lines of --reference. Throws Error if there are none in the file.
  std::vector<TensorMap> reference_inputs(const Globals& globals,
                                          const std::function<TensorMap(const std::string&)>& read) const;
};

/// The file that a report goes to, and how it looks there as a figure.
struct ReportOutput {
  std::filesystem::path file = {};
  std::optional<std::string> title = {};
  bool no_title = false;
  std::string width = {};  ///< 640, 640px or 85mm

  /// Adds --output, which is what `description` says, --title, --no-title and --width.
  void add_to(CLI::App& command, const char* description);
  /// Throws UsageError for a file with another ending, for the options of a figure without one, and for
  /// another width.
  void check(const std::vector<std::string>& endings) const;
  void check() const;
};
/// What most analyses write: figures, and the numbers of tables.
inline constexpr const char* kReportOutput =
    "Write a figure (.svg, .pdf, .png), or the numbers of the table (.csv, NumPy's .npz)";

/// Runs an analysis, whose progress is shown, warns of what its report says, and writes it to the file, or
/// prints tables or JSON.
void show_report(const AnalyzedModel& model, const ReportOutput& output, const Globals& globals,
                 const std::function<Report(const AnalysisProgress& progress)>& analysis);

}  // namespace heed::cli
