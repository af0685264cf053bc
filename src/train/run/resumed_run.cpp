// Compares a run with what it is resumed with.
#include "train/run/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "data/lines.h"
#include "files/checksum.h"
#include "heed/error.h"
#include "train/recipe/recipe_fields.h"

namespace heed {
namespace {

constexpr std::size_t kNamedChanges = 3;

// "train.lr: expected 0.01, as in CHECKPOINT, got 0.5; ..."
std::string changes_of(const std::vector<std::string>& keys, const std::filesystem::path& checkpoint,
                       const TrainingState& state, const Recipe& recipe) {
  std::map<std::string, std::string> now = recipe_values(recipe);
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), kNamedChanges); ++i) {
    const auto before = state.recipe.find(keys[i]);
    text += fmt::format("{}{}: expected {}{}, got {}", i == 0 ? "" : "; ", keys[i],
                        before == state.recipe.end() ? "no such key" : before->second,
                        i == 0 ? ", as in " + checkpoint.string() : "", now[keys[i]]);
  }
  if (keys.size() > kNamedChanges) text += fmt::format("; and {} more", keys.size() - kNamedChanges);
  return text;
}

// The model and its tokenizer are those of the checkpoint.
bool is_of_model(const std::string& key) {
  return key == "task.kind" || key.starts_with("model.") || key.starts_with("tokenizer.") ||
         key.starts_with("lora.");
}

std::string checksum_of(const std::filesystem::path& path) {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;
  for (const std::filesystem::path& file : data::input_files(path)) {
    const files::FileSum sum = files::sum_of_file(file);
    bytes += sum.bytes;
    crc = files::crc32c(std::as_bytes(std::span(&sum.crc, 1)), crc);
  }
  return fmt::format("{:08x} {}", crc, bytes);
}

// " in data.train (FILE), ...": the files that differ from the checkpoint's; empty if none is known to.
std::string changed_files(const TrainingState& state, const Recipe& recipe) {
  const std::map<std::string, std::string> now = checksums_of_data(recipe), values = recipe_values(recipe);
  std::string text;
  for (const auto& [key, before] : state.files) {
    const auto found = now.find(key);
    if (found != now.end() && found->second == before) continue;
    text += fmt::format("{} {} ({})", text.empty() ? " in" : ",", key,
                        found == now.end() ? "not given" : values.at(key));
  }
  return text;
}

void warn(const TrainOptions& options, const std::string& text) {
  if (options.on_message && processes_of(options).is_first()) options.on_message("warning: " + text);
}

}  // namespace

std::map<std::string, std::string> checksums_of_data(const Recipe& recipe) {
  std::map<std::string, std::string> sums;
  if (recipe.task.kind == "image-classification" || recipe.task.kind == "transcription")
    return sums;  // too much to read for a better message
  Recipe copy = recipe;
  for (const RecipeField& field : recipe_fields(copy)) {
    const auto* const* path = std::get_if<std::filesystem::path*>(&field.target);
    if (path != nullptr && field.key.starts_with("data.") && std::filesystem::exists(**path))
      sums[field.key] = checksum_of(**path);
  }
  return sums;
}

void report_unused_model(const std::filesystem::path& checkpoint, const TrainingState& state,
                         const Recipe& recipe, const TrainOptions& options) {
  const auto unused = [&](const char* what, const std::string& path) {
    warn(options, fmt::format("{} {} is not used: the run goes on with the model and the tokenizer of {}",
                              what, path, checkpoint.string()));
  };
  if (!options.init.empty() && recipe.lora.rank == 0) unused("--init", options.init.string());
  const auto before = state.recipe.find("tokenizer.from");
  const std::string from = recipe.tokenizer.from.string();
  if (!from.empty() && before != state.recipe.end() && before->second != from) unused("tokenizer.from", from);
}

void check_recipe_of_run(const std::filesystem::path& checkpoint, const TrainingState& state,
                         const Recipe& recipe, const TrainOptions& options) {
  std::vector<std::string> keys = fixed_differences(state.recipe, recipe);
  if (keys.empty()) return;
  const bool of_model = std::any_of(keys.begin(), keys.end(), is_of_model);
  if (options.force && of_model) std::erase_if(keys, [](const auto& key) { return !is_of_model(key); });
  const std::string changes = changes_of(keys, checkpoint, state, recipe);
  if (options.force && of_model)
    throw Error("train: " + changes +
                " (even with --force, a run goes on with its own model; start a new one in another folder)");
  if (options.force) return warn(options, "forced to go on with another recipe: " + changes);
  throw Error("train: " + changes +
              " (a resumed run can change its length, eval and checkpoint only; start a new one in another "
              "folder, or go on all the same with --force)");
}

TrainingState resumed_state(const std::filesystem::path& checkpoint, const TrainingTask& task,
                            const Recipe& recipe, const TrainOptions& options, std::int64_t warmup) {
  TrainingState state = load_training_state(checkpoint);
  check_recipe_of_run(checkpoint, state, recipe, options);
  const bool other_data = state.fingerprint != task.fingerprint();
  if (other_data && !options.force) {
    throw Error(
        fmt::format("train: expected the data that {} was trained on, got other data{} (give back the "
                    "old files, start a new run in another folder, or go on all the same with --force)",
                    checkpoint.string(), changed_files(state, recipe)));
  }
  if (other_data)
    warn(options, "forced to go on with other data than " + checkpoint.string() + " was trained on");
  if (other_data || state.metric != recipe.eval.metric) {  // then scores are not comparable
    state.metric = recipe.eval.metric;
    state.ranked.clear();
    state.not_better = 0;
  }
  const std::vector<std::string> keys = fixed_differences(state.recipe, recipe);
  if (!other_data && keys.empty()) return state;
  // An epoch may have fewer batches than that of the run; epochs differ by one at most.
  if (state.position.batch + 1 >= task.batches_per_epoch()) state.position = {state.position.epoch + 1, 0};
  if (std::find(keys.begin(), keys.end(), "train.warmup") != keys.end()) state.warmup = warmup;
  return state;
}

}  // namespace heed
