// What of a model is checked, the table of checks, and running them.
#include "heed/doctor.h"

#include <algorithm>
#include <iterator>

#include "doctor/examination.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/open/loaded_model.h"

namespace heed {
namespace doctor {
namespace {

// What a check needs.
enum class Need {
  nothing,
  files,
  model,
  model_and_files,
  finite,  // a model whose outputs are finite: NaN equals nothing, so a comparison would blame what it
           // compares
  text     // a finite model, and a text
};

struct Check {
  const char* name;
  Need need;
  Finding (*run)(Examination& examination);
};

constexpr Check kChecks[] = {
    {"loading", Need::nothing, check_loading},
    {"config keys", Need::model, check_config_keys},
    {"config values", Need::files, check_config_values},
    {"special ids", Need::files, check_special_ids},
    {"tokenizer size", Need::nothing, check_tokenizer_size},
    {"tokenizer case", Need::files, check_case},
    {"unused vocabulary", Need::files, check_unused_vocabulary},
    {"tied weights", Need::model_and_files, check_tied_weights},
    {"chat template", Need::files, check_chat_template},
    {"processor", Need::model_and_files, check_processor},
    {"pooling", Need::model_and_files, check_pooling},
    {"generation settings", Need::files, check_generation_settings},
    {"finite weights", Need::files, check_weights_finite},
    {"weight rows", Need::files, check_weight_rows},
    {"weight norms", Need::files, check_weight_norms},
    {"norm weights", Need::files, check_norm_weights},
    {"finite outputs", Need::model, check_outputs_finite},
    {"causality", Need::finite, check_causality},
    {"order", Need::finite, check_order},
    {"padding right", Need::finite, check_right_padding},
    {"padding left", Need::finite, check_left_padding},
    {"batch", Need::finite, check_batch},
    {"threads", Need::finite, check_threads},
    {"cache", Need::finite, check_cache},
    {"beams", Need::finite, check_beams},
    {"decoder start", Need::finite, check_decoder_start},
    {"attention rows", Need::finite, check_attention_rows},
    {"scores", Need::finite, check_scores},
    {"heads", Need::finite, check_heads},
    {"residual norms", Need::finite, check_residual},
    {"lengths", Need::text, check_lengths},
};

// Why a check cannot run; empty if it can.
std::string missing(Need need, Examination& e) {
  const CheckedModel& checked = e.checked;
  if ((need == Need::files || need == Need::model_and_files) && !checked.files)
    return "the model has no files";
  if (need == Need::nothing || need == Need::files) return {};
  if (checked.model == nullptr) return "the model cannot be loaded";
  if (need == Need::text && checked.text.empty()) return "no text (give one with --texts FILE)";
  if (need == Need::text && checked.tokenizer == nullptr) return "no tokenizer to read the text with";
  if ((need == Need::finite || need == Need::text) && !e.is_finite())
    return "nothing to compare: outputs are not finite";
  return {};
}

// Any of these makes a tokenizer, if not always a whole one.
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",          "vocab.json", "vocab.txt", "source.spm", "tokenizer.model", "spiece.model",
    "sentencepiece.bpe.model", "spm.model"};

bool has_tokenizer_files(const ModelFiles& files) {
  return files.is_gguf() || std::any_of(std::begin(kTokenizerFiles), std::end(kTokenizerFiles),
                                        [&](const char* name) { return files.has(name); });
}

Finding run(const Check& check, Examination& examination) {
  try {
    if (const std::string reason = missing(check.need, examination); !reason.empty()) return skip(reason);
    return check.run(examination);
  } catch (const Error& error) {
    if (error.what() == examination.checked.model_error && check.run != check_loading)
      return skip("the error of loading");
    return {CheckStatus::failed, error.what(), "correct what the message names"};
  }
}

}  // namespace
}  // namespace doctor

const char* name_of(CheckStatus status) {
  switch (status) {
    case CheckStatus::ok: return "ok";
    case CheckStatus::warning: return "warning";
    case CheckStatus::failed: return "failed";
    case CheckStatus::skipped: return "skipped";
  }
  HEED_ASSERT(false, "unknown status");
}

CheckedModel checked_model(const LoadedModel& opened) {
  CheckedModel checked{.files = opened.files(), .adapters = opened.adapters()};
  try {
    checked.model = &opened.model();
  } catch (const Error& error) {
    if (!checked.files->has("config.json")) throw;
    checked.model_error = error.what();
  }
  if (!doctor::has_tokenizer_files(*checked.files)) return checked;
  try {
    checked.tokenizer = &opened.tokenizer();
  } catch (const Error& error) {
    checked.tokenizer_error = error.what();
  }
  return checked;
}

std::vector<std::string> check_names() {
  std::vector<std::string> names;
  for (const doctor::Check& check : doctor::kChecks) names.emplace_back(check.name);
  return names;
}

std::vector<CheckResult> examine(const CheckedModel& checked,
                                 const std::function<void(const CheckResult&)>& report,
                                 const std::vector<std::string>& names) {
  const std::vector<std::string> known = check_names();
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw Error("doctor: expected the name of a check, got " + name);
  }
  const NoGradients inference;
  doctor::Examination examination(checked);
  std::vector<CheckResult> results;
  for (const doctor::Check& check : doctor::kChecks) {
    if (!names.empty() && std::find(names.begin(), names.end(), check.name) == names.end()) continue;
    results.push_back({check.name, doctor::run(check, examination)});
    if (report) report(results.back());
  }
  return results;
}

}  // namespace heed
