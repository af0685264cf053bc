// Trains, saves and merges adapters.
#include "models/adapters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/edit_distance.h"
#include "core/strings.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/hub_cache.h"
#include "heed/io/safetensors.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/matmul.h"
#include "heed/ops/shape.h"
#include "models/adapter_config.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Heads that PEFT trains and saves whole for these tasks, whatever its modules_to_save says, and every module
// whose name ends like theirs, such as DistilBERT's pre_classifier.
const std::map<std::string, std::vector<std::string>> kHeads = {{"SEQ_CLS", {"classifier", "score"}},
                                                                {"TOKEN_CLS", {"classifier", "score"}},
                                                                {"QUESTION_ANS", {"qa_outputs"}}};

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// The last parts of the names of all linear maps and token tables.
std::set<std::string> adaptable_names(const Weights& weights) {
  std::set<std::string> names;
  for (const TensorRow& row : weights.rows()) {
    if (takes_adapter(row)) names.insert(last_part(module_of(row.name)));
  }
  return names;
}

[[noreturn]] void throw_no_match(const Weights& weights, const std::string& what, const std::string& name) {
  const std::set<std::string> known = adaptable_names(weights);
  if (known.empty()) throw Error(what + ": expected a model with linear maps to adapt, got one without");
  const std::string near = nearest_word(last_part(name), {known.begin(), known.end()});
  throw Error(what + ": expected the name of a linear map or a token table, got \"" + name +
              "\", which matches none (" + (near.empty() ? "" : "did you mean " + near + "? ") +
              "The model has " + joined(known) + ")");
}

// Chooses modules for a new adapter.
class Choice {
 public:
  Choice(const Weights& weights, LoraOptions& options, const std::string& task_type)
      : weights_(weights), options_(options) {
    choose_whole(task_type);
    if (options.targets.expression == "all-linear") {
      choose_all();
    } else {
      choose_maps();
    }
  }
  std::vector<const TensorRow*> maps, whole;

 private:
  void add_whole_name(const std::string& name) {
    if (!is_within_any(name, options_.train)) options_.train.push_back(name);
  }

  void choose_whole(const std::string& task_type) {
    for (const std::string& name : options_.train) {
      const bool found =
          std::any_of(weights_.rows().begin(), weights_.rows().end(),
                      [&](const TensorRow& row) { return is_within_any(owner_of(row.name), {name}); });
      if (!found) throw_no_match(weights_, "lora.train", name);
    }
    const auto heads = kHeads.find(task_type);
    for (const TensorRow& row : weights_.rows()) {
      const std::string first = row.name.substr(0, row.name.find('.')), owner = owner_of(row.name);
      const bool is_head = heads != kHeads.end() &&
                           std::any_of(heads->second.begin(), heads->second.end(),
                                       [&](const std::string& head) { return first.ends_with(head); });
      if (is_head) add_whole_name(first);
      if (weights_.new_rows().contains(row.name)) add_whole_name(owner);
    }
    std::vector<std::string> modules;
    for (const TensorRow& row : weights_.rows()) {
      const std::string module = outermost_module(owner_of(row.name), options_.train);
      if (!row.trained || module.empty()) continue;
      if (!row.tied.empty()) refuse_tied("lora.train", owner_of(row.name), row);
      whole.push_back(&row);
      if (std::find(modules.begin(), modules.end(), module) == modules.end()) modules.push_back(module);
    }
    options_.train = modules;
  }

  bool is_whole(const TensorRow& row) const { return is_within_any(owner_of(row.name), options_.train); }

  void choose_all() {
    options_.targets = {};
    for (const TensorRow& row : weights_.rows()) {
      const bool inner = row.target == AdapterTarget::linear || row.target == AdapterTarget::linear_in_out;
      if (!inner || is_whole(row)) continue;
      maps.push_back(&row);
      options_.targets.names.push_back(module_of(row.name));
    }
    if (maps.empty()) throw_no_match(weights_, "lora.targets", "all-linear");
  }

  void choose_maps() {
    const ModuleTest wanted = targets_test(options_.targets, "lora.targets");
    for (const TensorRow& row : weights_.rows()) {
      for (const std::string& tied : row.tied) {
        if (const std::string module = module_of(tied); wanted(module))
          refuse_tied("lora.targets", module, row);
      }
      const std::string module = module_of(row.name);
      if (module.empty() || is_whole(row) || !wanted(module)) continue;
      if (!takes_adapter(row))
        throw Error("lora.targets: expected linear maps and token tables, got " + module +
                    " as well (name them: " + joined(adaptable_names(weights_)) + ")");
      maps.push_back(&row);
    }
    for (const std::string& name : options_.targets.names) {
      const ModuleTest test = targets_test({.names = {name}}, "lora.targets");
      if (std::none_of(maps.begin(), maps.end(),
                       [&](const TensorRow* row) { return test(module_of(row->name)); }))
        throw_no_match(weights_, "lora.targets", name);
    }
    if (maps.empty()) throw_no_match(weights_, "lora.targets", options_.targets.expression);
  }

  const Weights& weights_;
  LoraOptions& options_;
};

// Without effect, as PEFT begins. Of a map, A is Kaiming's uniform initialization with a = sqrt(5), limits
// +-1 / sqrt(in), and B zeros; of a table, A zeros and B normal.
LoraAdapter new_adapter(const TensorRow& row, std::int64_t rank, RandomStream stream) {
  LoraAdapter adapter{.a = Tensor::zeros({rank, size_in(row)}), .b = Tensor::zeros({size_out(row), rank})};
  const bool table = row.target == AdapterTarget::token_table;
  const float limit = 1.0f / std::sqrt(static_cast<float>(size_in(row)));
  Tensor& random = table ? adapter.b : adapter.a;
  float* values = random.data<float>();
  for (std::int64_t i = 0; i < random.numel(); ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    values[i] = table ? stream.normal(at) : limit * (2.0f * stream.uniform(at) - 1.0f);
  }
  adapter.a.set_requires_grad();
  adapter.b.set_requires_grad();
  return adapter;
}

}  // namespace

TrainedAdapter train_adapter(Weights& weights, LoraOptions options, const std::string& task_type,
                             const std::string& base, Generator& generator) {
  if (options.rank < 1) throw Error("lora.rank: expected at least 1, got " + std::to_string(options.rank));
  if (weights.is_adapted())
    throw Error("lora: expected a model without adapters to train one, got one with (merge them first)");
  const Choice choice(weights, options, task_type);
  for (Parameter p : weights.parameters()) p.tensor.set_requires_grad(false);
  TrainedAdapter trained{options, base, task_type, false, {}};
  const auto r = static_cast<double>(options.rank);
  for (const TensorRow* row : choice.maps) {
    LoraAdapter adapter = new_adapter(*row, options.rank, generator.next());
    adapter.scale = options.alpha / (options.rslora ? std::sqrt(r) : r);
    adapter.dropout = options.dropout;
    const std::string module = kAdapterPrefix + module_of(row->name);
    trained.parameters.push_back({module + adapter_names(*row).a, adapter.a});
    trained.parameters.push_back({module + adapter_names(*row).b, adapter.b});
    trained.fan_in_fan_out = trained.fan_in_fan_out || row->target == AdapterTarget::linear_in_out;
    add_adapter_to(*row, weights[row->name], std::move(adapter));
  }
  for (const TensorRow* row : choice.whole) {
    Tensor tensor = weights[row->name].tensor();
    tensor.set_requires_grad();
    trained.parameters.push_back({kAdapterPrefix + row->name, tensor, row->shape.rank() > 1});
  }
  return trained;
}

void TrainedAdapter::save(const fs::path& directory, DType dtype) const {
  std::vector<NamedTensor> tensors;
  for (const Parameter& p : parameters) tensors.push_back({p.name, p.tensor.detach().to(dtype)});
  write_file(directory / kAdapterConfig, adapter_config_text(options, base, task_type, fan_in_fan_out));
  save_safetensors(directory / kAdapterTensors, tensors);
}

void add_adapter_to(const TensorRow& row, const Weight& weight, LoraAdapter adapter) {
  if (row.target == AdapterTarget::token_table) return weight.add_row_adapter(std::move(adapter));
  weight.add_adapter(std::move(adapter));
}

void merge_adapters(Weights& weights) {
  const NoGradients guard;
  for (const TensorRow& row : weights.rows()) {
    if (!row.tied.empty() && !weights[row.name].row_adapters().empty())
      throw Error(row.name + ": expected a token table of its own to merge an adapter into, got one that " +
                  row.tied.front() + " shares, which has no part in it (use the adapter with --adapter)");
  }
  for (const TensorRow& row : weights.rows()) {
    const Weight& weight = weights[row.name];
    const bool table = row.target == AdapterTarget::token_table;
    const std::vector<LoraAdapter>& adapters = table ? weight.row_adapters() : weight.adapters();
    if (adapters.empty()) continue;
    Tensor sum = weight.tensor().detach().to(DType::f32);
    for (const LoraAdapter& adapter : adapters) {
      const Tensor product = matmul(adapter.b, adapter.a) * adapter.scale;  // [out, in]
      sum = sum + (stored_in_first(row) ? transpose(product, 0, 1) : product);
    }
    weight.remove_adapters();
    weight.tensor().copy_from(sum);
  }
}

std::string adapted_task(const Model& model) {
  if (dynamic_cast<const DecoderModel*>(&model) != nullptr) return "CAUSAL_LM";
  if (dynamic_cast<const EncoderDecoderModel*>(&model) != nullptr) return "SEQ_2_SEQ_LM";
  const auto* encoder = dynamic_cast<const EncoderModel*>(&model);
  if (encoder == nullptr) return "";
  switch (encoder->head()) {
    case EncoderHead::sequence: return "SEQ_CLS";
    case EncoderHead::token: return "TOKEN_CLS";
    case EncoderHead::span: return "QUESTION_ANS";
    case EncoderHead::none: return "FEATURE_EXTRACTION";
    case EncoderHead::masked_lm:
    case EncoderHead::ctc: return "";
  }
  return "";
}

std::string base_name(const fs::path& config) {
  const fs::path directory = fs::absolute(config).lexically_normal().parent_path();
  // HUB/models--owner--name/snapshots/COMMIT
  std::string folder = directory.parent_path().parent_path().filename().string();
  if (directory.parent_path().filename() != "snapshots" || !folder.starts_with("models--"))
    return directory.string();
  folder.erase(0, std::string_view("models--").size());
  if (const std::size_t at = folder.find("--"); at != folder.npos) folder.replace(at, 2, "/");
  return is_repository_name(folder) ? folder : directory.string();
}

void Model::add_adapter(const fs::path& directory, double) {
  throw Error(directory.string() + ": expected a model that takes adapters, got " + family());
}

std::vector<Parameter> Model::train_adapter(const LoraOptions&, Generator&) {
  throw Error("lora: expected a model that takes adapters, got " + family());
}

void Model::merge_adapters() {}

std::int64_t Model::use_activations(Activations) { return 0; }
std::vector<QuantizedMap> Model::int8_activation_errors(const std::function<void()>&) { return {}; }
QuantizeReport Model::quantize(const QuantizeOptions&, const std::function<void()>&) {
  throw Error("quantize: expected a model of files, got " + family());
}

QuantizeReport Model::save_gguf(const fs::path& file, GgufType, const fs::path&) const {
  throw Error(file.string() + ": expected a model of files, got " + family());
}

}  // namespace heed
