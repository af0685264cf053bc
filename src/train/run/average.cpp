// Averages models: at the end of a run, and for directories that a user names.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "files/folder_lock.h"
#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/safetensors.h"
#include "heed/train/checkpoint.h"
#include "train/run/run.h"

namespace heed {
namespace {

std::vector<SavedWeights> open_all(const std::vector<std::filesystem::path>& directories) {
  if (directories.empty()) throw Error("average: no model directories given");
  std::vector<SavedWeights> models;
  for (const auto& directory : directories) {
    if (is_complete(directory)) verify_directory(directory);
    models.emplace_back(directory);
  }
  return models;
}

// Returns the tensor's numbers in f64.
std::vector<double> finite_values(const SavedWeights& model, const std::string& name, const Tensor& tensor) {
  std::vector<double> values = tensor.to(DType::f64).to_vector<double>();
  const auto wrong = std::find_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); });
  if (wrong != values.end()) {
    throw Error(fmt::format("{}: {}: expected finite weights, got {} (leave this model out)",
                            model.path_of(name).string(), name, *wrong));
  }
  return values;
}

// Returns the mean in f64, with the shape in the first model.
Tensor mean_of(const std::vector<SavedWeights>& models, const std::string& name) {
  const Tensor first = models.front().get(name);
  std::vector<double> sum = finite_values(models.front(), name, first);
  for (std::size_t i = 1; i < models.size(); ++i) {
    if (!models[i].contains(name)) {
      throw Error(fmt::format("{}: tensor {} not found ({} has it; average models of one shape)",
                              models[i].path().string(), name, models.front().path().string()));
    }
    const Tensor other = models[i].get(name);
    if (other.shape() != first.shape()) {
      throw Error(fmt::format("{}: {}: expected {}, as {} has, got {}", models[i].path().string(), name,
                              first.shape().str(), models.front().path().string(), other.shape().str()));
    }
    const std::vector<double> values = finite_values(models[i], name, other);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += values[j];
  }
  for (double& s : sum) s /= static_cast<double>(models.size());
  return Tensor::from(sum, first.shape());
}

// Returns false for files of a training run, and for weights, which the mean replaces.
bool is_copied(const std::filesystem::directory_entry& entry) {
  constexpr std::array kOwn{"complete",
                            "lock",
                            "training.json",
                            "optimizer.safetensors",
                            "log.jsonl",
                            "loss.svg",
                            "log.csv",
                            "report.html",
                            "predictions-dev.jsonl",
                            "predictions-test.jsonl",
                            "dev.source.txt",
                            "dev.reference.txt",
                            "test.source.txt",
                            "test.reference.txt"};
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file() && std::find(kOwn.begin(), kOwn.end(), name) == kOwn.end() &&
         !name.ends_with(".safetensors") && !name.ends_with(".safetensors.index.json");
}

}  // namespace

bool is_module(const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return entry.is_directory() && name.find_first_not_of("0123456789") == name.find('_') &&
         name.front() != '_';
}

void load_mean(const std::vector<std::filesystem::path>& directories,
               const std::vector<Parameter>& parameters) {
  const std::vector<SavedWeights> models = open_all(directories);
  for (const Parameter& p : parameters) {
    const Tensor mean = mean_of(models, p.name);
    if (mean.shape() != p.tensor.shape()) {
      throw Error(fmt::format("{}: {}: expected {}, got {}", models.front().path().string(), p.name,
                              p.tensor.shape().str(), mean.shape().str()));
    }
    p.tensor.copy_from(mean);
  }
}

void average_models(const std::vector<std::filesystem::path>& directories,
                    const std::filesystem::path& output) {
  for (const auto& directory : directories) {
    if (is_adapter(directory))
      throw Error(directory.string() +
                  ": expected a model to average, got an adapter (heed convert MODEL --adapter A --adapter B "
                  "takes several)");
  }
  const std::vector<SavedWeights> models = open_all(directories);
  for (const SavedWeights& model : models) {
    if (model.names().size() != models.front().names().size()) {
      throw Error(fmt::format("{}: expected {} tensors, as {} has, got {}", model.path().string(),
                              models.front().names().size(), models.front().path().string(),
                              model.names().size()));
    }
  }
  for (const auto& directory : directories) {
    std::error_code error;
    if (!std::filesystem::equivalent(directory, output, error)) continue;
    throw Error(
        fmt::format("{}: expected a folder other than those to average, got one of them", output.string()));
  }
  std::map<std::filesystem::path, std::vector<NamedTensor>> tensors;  // by the folders that they are in
  for (const std::string& name : models.front().names()) {
    const Tensor first = models.front().get(name);
    const Tensor mean = is_floating(first.dtype()) ? mean_of(models, name).to(first.dtype()) : first;
    const std::filesystem::path path = name;
    tensors[path.parent_path()].push_back({path.filename().string(), mean});
  }
  NewModelFolder folder(output);
  for (const auto& entry : std::filesystem::directory_iterator(directories.front())) {
    if (is_copied(entry))
      write_file(folder.path() / entry.path().filename(),
                 read_regular_file(entry.path(), file_limits::kText));
    if (is_module(entry))
      std::filesystem::copy(entry.path(), folder.path() / entry.path().filename(),
                            std::filesystem::copy_options::recursive);
  }
  for (const auto& [module, of_module] : tensors)
    save_safetensors(folder.path() / module / "model.safetensors", of_module);
  folder.commit();
}

}  // namespace heed
