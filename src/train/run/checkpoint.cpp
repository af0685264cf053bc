// Writes and reads checkpoints.
#include "heed/train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "train/run/run.h"

namespace heed {
namespace {

constexpr const char* kStateFile = "training.json";
constexpr const char* kOptimizerFile = "optimizer.safetensors";

std::string to_json(const TrainingState& state) {
  JsonWriter json(2);
  json.begin_object();
  json.field("step", state.step);
  json.field("epoch", state.position.epoch);
  json.field("batch", state.position.batch);
  json.field("generator_position", state.generator_position);
  json.field("tokens", state.tokens);
  json.field("warmup", state.warmup);
  json.field("seconds", state.seconds);
  json.field("metric", state.metric);
  json.key("ranked").begin_array();
  for (const RankedStep& r : state.ranked) {
    json.begin_object().field("step", r.step).field("score", r.score).end_object();
  }
  json.end_array();
  json.field("not_better", state.not_better);
  json.field("fingerprint", state.fingerprint);
  json.field("files", state.files);
  json.field("recipe", state.recipe);
  json.end_object();
  return json.text() + "\n";
}

std::int64_t count_of(const Config& json, std::string_view key) {
  const std::int64_t count = json.required_integer(key);
  if (count < 0 || count > kMaxSteps) json.fail(key, "an integer from 0 to 2^53");
  return count;
}

// Earlier versions stored the warm-up only in the recipe, as a number of steps.
std::int64_t warmup_of_earlier_version(const Config& recipe) {
  const std::string text = recipe.string("train.warmup", "0");
  std::int64_t steps = 0;
  std::from_chars(text.data(), text.data() + text.size(), steps);
  return std::clamp<std::int64_t>(steps, 0, kMaxSteps);
}

// "2_Dense/" of 2_Dense/linear.weight.
std::string beginning_of(const std::string& name) { return name.substr(0, name.find('/') + 1); }

void copy_parameter(const Parameter& p, const SavedWeights& files) {
  const Tensor read = files.get(p.name);
  if (read.shape() != p.tensor.shape()) {
    throw Error(fmt::format("{}: {}: expected {}, got {}", files.path_of(p.name).string(), p.name,
                            p.tensor.shape().str(), read.shape().str()));
  }
  p.tensor.copy_from(read);
}

}  // namespace

SavedWeights::SavedWeights(const std::filesystem::path& directory) {
  const bool adapter = is_adapter(directory);
  files_.emplace("", TensorFiles::open(adapter ? directory / "adapter_model.safetensors" : directory));
  if (adapter) return;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (is_module(entry) && std::filesystem::exists(entry.path() / "model.safetensors"))
      files_.emplace(entry.path().filename().string() + "/", TensorFiles::open(entry.path()));
  }
}

std::vector<std::string> SavedWeights::names() const {
  std::vector<std::string> all;
  for (const auto& [beginning, files] : files_)
    for (const std::string& name : files.names()) all.push_back(beginning + name);
  return all;
}

const TensorFiles& SavedWeights::files_of(const std::string& name) const {
  const auto found = files_.find(beginning_of(name));
  return found == files_.end() ? files_.at("") : found->second;
}

bool SavedWeights::contains(const std::string& name) const {
  return files_.contains(beginning_of(name)) &&
         files_of(name).contains(name.substr(beginning_of(name).size()));
}

Tensor SavedWeights::get(const std::string& name) const {
  return files_of(name).get(name.substr(beginning_of(name).size()));
}

const std::filesystem::path& SavedWeights::path_of(const std::string& name) const {
  return files_of(name).path_of(name.substr(beginning_of(name).size()));
}

void save_checkpoint(const std::filesystem::path& run, const TrainingTask& task, const TensorMap& optimizer,
                     const TrainingState& state) {
  AtomicDirectory directory(checkpoint_path(run, state.step));
  task.save(directory.path(), DType::f32);
  std::vector<NamedTensor> tensors;
  for (const auto& entry : optimizer) tensors.push_back({entry.first, entry.second});
  save_safetensors(directory.path() / kOptimizerFile, tensors);
  write_file(directory.path() / kStateFile, to_json(state));
  directory.commit();
}

void verify_checkpoint(const std::filesystem::path& checkpoint) {
  verify_directory(checkpoint);
  load_training_state(checkpoint);
  static_cast<void>(SavedWeights(checkpoint));
  SafetensorsFile::open(checkpoint / kOptimizerFile);
}

TrainingState load_training_state(const std::filesystem::path& checkpoint) {
  const Config json = Config::load(checkpoint / kStateFile);
  TrainingState state;
  state.step = count_of(json, "step");
  state.position = {count_of(json, "epoch"), count_of(json, "batch")};
  state.generator_position = static_cast<std::uint64_t>(count_of(json, "generator_position"));
  state.tokens = count_of(json, "tokens");
  state.seconds = json.required_number("seconds");
  state.metric = json.required_string("metric");
  const Config ranked = json.sub("ranked");
  for (const std::string& i : ranked.names()) {
    state.ranked.push_back({count_of(ranked.sub(i), "step"), ranked.sub(i).required_number("score")});
  }
  state.not_better = count_of(json, "not_better");
  state.fingerprint = json.required_string("fingerprint");
  if (const std::optional<Config> files = json.optional_sub("files")) {  // earlier versions have none
    for (const std::string& key : files->names()) state.files[key] = files->required_string(key);
  }
  const Config recipe = json.sub("recipe");
  for (const std::string& key : recipe.names()) state.recipe[key] = recipe.required_string(key);
  state.warmup = json.has("warmup") ? count_of(json, "warmup") : warmup_of_earlier_version(recipe);
  return state;
}

void load_checkpoint_weights(const std::filesystem::path& checkpoint,
                             const std::vector<Parameter>& parameters) {
  const SavedWeights files(checkpoint);
  for (const Parameter& p : parameters) copy_parameter(p, files);
}

void load_checkpoint_optimizer(const std::filesystem::path& checkpoint, AdamW& optimizer) {
  const SafetensorsFile file = SafetensorsFile::open(checkpoint / kOptimizerFile);
  TensorMap state;
  for (const TensorInfo& info : file.tensors()) state[info.name] = file.get(info.name);
  try {
    optimizer.load_state(state);
  } catch (const Error& error) {
    throw Error(file.path().string() + ": " + error.what());
  }
}

}  // namespace heed
