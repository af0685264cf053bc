// Checks of a checkpoint as it is used: what its files say, what it computes, and how its attention behaves.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/export.h"
#include "heed/files/model_files.h"
#include "heed/models/model.h"
#include "heed/text/tokenizer.h"

namespace HEED_API heed {

class LoadedModel;

enum class CheckStatus : std::uint8_t {
  ok,
  warning,  ///< odd, but a sound model may be like this
  failed,   ///< certainly wrong
  skipped,  ///< does not apply to the model, or lacks what it needs; the measurement says why
};

/// "ok", "warning", "failed" or "skipped".
const char* name_of(CheckStatus status);

/// The model and files to check.
struct CheckedModel {
  const Model* model = nullptr;            ///< null: it cannot be loaded, and only its files are checked
  std::string model_error = {};            ///< why it cannot be loaded
  const Tokenizer* tokenizer = nullptr;    ///< null: there is none, or it cannot be read
  std::string tokenizer_error = {};        ///< why it cannot be read
  std::optional<ModelFiles> files = {};    ///< none: the checks of files are skipped
  std::string text = {};                   ///< for the loss by position; empty: none
  std::string reference = {};              ///< its translation, line by line, for an encoder-decoder
  std::vector<std::string> adapters = {};  ///< directories of the adapters that the model has
  /// The mean loss in nats that the model should have on the text, for example measured by another program.
  std::optional<double> expected_loss = {};
};

/// An opened model, which outlives the result: what can be read of it, and why the rest cannot. Throws Error
/// for files without a config.json, which are no model's.
CheckedModel checked_model(const LoadedModel& opened);

/// The finding of one check.
struct Finding {
  CheckStatus status = CheckStatus::ok;
  std::string measurement = {};  ///< what was measured, or why nothing was
  std::string advice = {};       ///< what to do about a warning or a failure
  /// The numbers behind the measurement, such as one per layer.
  std::vector<std::pair<std::string, double>> values = {};
};

struct CheckResult {
  std::string name;
  Finding finding;
};

/// The names of all checks, in the order in which they run.
std::vector<std::string> check_names();

/// Runs all checks in order, or those of `names`. `report` receives each result as soon as it is known. An
/// Error in a check is a failure of that check. Throws Error for a name that is not a check. Threads: the
/// check of threads changes the number of compute threads and restores it.
std::vector<CheckResult> examine(const CheckedModel& checked,
                                 const std::function<void(const CheckResult&)>& report = {},
                                 const std::vector<std::string>& names = {});

}  // namespace heed
