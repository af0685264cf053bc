// models_table FOLDER...: how far heed is from Hugging Face transformers, as a table in Markdown. A folder
// has one subfolder for each model: config.json, model.safetensors, inputs.safetensors and what transformers
// computes from them, expected.safetensors. docs/models.md has its output; scripts/models-table.sh puts it
// there.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "heed/io/safetensors.h"
#include "heed/models/registry.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

/// The largest difference of all tensors of a kind, and their largest value.
struct Difference {
  double largest = 0, value = 0;
  bool any = false;
  void add(const Tensor& got, const Tensor& want) {
    if (got.shape() != want.shape())
      throw Error("expected a result " + want.shape().str() + ", got " + got.str());
    const auto a = got.detach().to(DType::f64).to_vector<double>();
    const auto b = want.to(DType::f64).to_vector<double>();
    any = true;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double difference = std::abs(a[i] - b[i]);
      largest = std::isnan(difference) ? difference : std::max(largest, difference);
      value = std::max(value, std::abs(b[i]));
    }
  }
  std::string text() const { return any ? fmt::format("{:.1e}", largest / value) : ""; }
};

struct Differences {
  Difference outputs, hidden_states, attentions, gradients;
  Difference& of(const std::string& name) {
    if (name.starts_with("grad.")) return gradients;
    if (name.find("hidden_states.") != std::string::npos) return hidden_states;
    if (name.find("attentions.") != std::string::npos) return attentions;
    return outputs;
  }
};

TensorMap read_all(const fs::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  TensorMap tensors;
  for (const TensorInfo& info : file.tensors()) tensors[info.name] = file.get(info.name);
  return tensors;
}

void print_row(const fs::path& folder) {
  const auto model = load_model(folder);
  Context context;
  TensorMap got = model->forward(read_all(folder / "inputs.safetensors"),
                                 {.hidden_states = true, .attentions = true}, context);
  if (got.contains("loss")) got.at("loss").backward();
  std::int64_t parameters = 0;
  for (const Parameter& parameter : model->parameters()) {
    parameters += parameter.tensor.numel();
    const Tensor gradient = parameter.tensor.grad();
    got["grad." + parameter.name] = gradient.defined() ? gradient : Tensor::zeros(parameter.tensor.shape());
  }
  Differences differences;
  for (const auto& [name, want] : read_all(folder / "expected.safetensors")) {
    if (!got.contains(name)) throw Error("expected a result " + name + ", got none");
    differences.of(name).add(got.at(name), want);
  }
  fmt::print("| {} | `{}` | {} | {} | {} | {} | {} |\n", folder.filename().string(), model->family(),
             parameters, differences.outputs.text(), differences.hidden_states.text(),
             differences.attentions.text(), differences.gradients.text());
}

void print_table(int count, char** folders) {
  std::set<fs::path> cases;
  for (int i = 1; i < count; ++i) {
    for (const auto& entry : fs::directory_iterator(folders[i])) {
      if (fs::exists(entry.path() / "expected.safetensors") && fs::exists(entry.path() / "model.safetensors"))
        cases.insert(entry.path());
    }
  }
  fmt::print(
      "| model | family | parameters | outputs | hidden states | attentions | gradients |\n"
      "|---|---|---|---|---|---|---|\n");
  for (const fs::path& folder : cases) {
    try {
      print_row(folder);
    } catch (const Error& error) {
      throw Error(folder.string() + ": " + error.what());
    }
  }
}

}  // namespace
}  // namespace heed

int main(int count, char** arguments) {
  try {
    heed::print_table(count, arguments);
  } catch (const heed::Error& error) {
    fmt::print(stderr, "models_table: {}\n", error.what());
    return 1;
  }
  return 0;
}
