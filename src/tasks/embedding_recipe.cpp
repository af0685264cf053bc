// Reads and writes the pooling recipes of sentence-transformers: modules.json lists a transformer, a pooling
// and further steps, each with a folder that contains its settings.
#include <fmt/format.h>

#include <algorithm>

#include "files/input_file.h"
#include "heed/error.h"
#include "heed/files/file.h"
#include "heed/io/json.h"
#include "heed/io/safetensors.h"
#include "heed/models/find_model.h"
#include "heed/models/kind.h"
#include "heed/tasks/embed.h"
#include "tasks/text_vectors.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModules = "modules.json";
constexpr const char *kDense = "Dense", *kLayerNorm = "LayerNorm";  // modules with weights
constexpr std::size_t kFirstStep = 2;                               // module, behind transformer and pooling

// Returns a module's kind: the last part of its class name, as in sentence_transformers.models.Pooling.
std::string kind_of(const std::string& type) { return type.substr(type.rfind('.') + 1); }

struct PoolingKey {
  const char* key;
  const char* name;
  Pooling pooling;
};
// In the order in which several are concatenated.
constexpr PoolingKey kPoolings[] = {
    {"pooling_mode_cls_token", "cls", Pooling::cls},
    {"pooling_mode_max_tokens", "max", Pooling::max},
    {"pooling_mode_mean_tokens", "mean", Pooling::mean},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::mean_sqrt},
    {"pooling_mode_weightedmean_tokens", "weightedmean", Pooling::weighted_mean},
    {"pooling_mode_lasttoken", "lasttoken", Pooling::last},
};

void add_pooling(EmbeddingRecipe& recipe, const Config& json) {
  for (const PoolingKey& one : kPoolings) {
    if (json.boolean(one.key, false)) recipe.poolings.push_back(one.pooling);
  }
  // Newer files give the modes by name instead: one, or a list.
  for (const std::string& name : json.strings("pooling_mode")) {
    const auto known = std::find_if(std::begin(kPoolings), std::end(kPoolings),
                                    [&](const PoolingKey& one) { return name == one.name; });
    if (known == std::end(kPoolings))
      json.fail("pooling_mode", "cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken");
    recipe.poolings.push_back(known->pooling);
  }
  recipe.pool_prompt = json.boolean("include_prompt", true);
  if (recipe.poolings.empty())
    throw Error(json.where() + ": no pooling mode is true (set one, such as pooling_mode_mean_tokens)");
}

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"torch.nn.modules.activation.Tanh", Activation::tanh},
    {"torch.nn.modules.linear.Identity", Activation::none},
    {"torch.nn.modules.activation.ReLU", Activation::relu},
    {"torch.nn.modules.activation.GELU", Activation::gelu},
    {"torch.nn.modules.activation.SiLU", Activation::silu},
    {"torch.nn.modules.activation.Sigmoid", Activation::sigmoid},
};

// Parses the class name of an activation of torch.nn, by its last part.
Activation torch_activation(const Config& json) {
  const std::string name = kind_of(json.string("activation_function", kActivations[0].first));
  for (const auto& [known, activation] : kActivations) {
    if (name == kind_of(known)) return activation;
  }
  json.fail("activation_function", "Tanh, Identity, ReLU, GELU, SiLU or Sigmoid of torch.nn");
}

Tensor f32_tensor(const TensorFiles& files, const std::string& name, const Shape& shape) {
  if (!files.contains(name)) throw Error(files.path().string() + ": tensor " + name + " not found");
  const Tensor tensor = files.get(name);
  if (tensor.shape() != shape || !is_floating(tensor.dtype())) {
    throw Error(files.path().string() + ": " + name + ": expected floating numbers " + shape.str() +
                ", got " + tensor.str());
  }
  return tensor.to(DType::f32);
}

void add_dense(EmbeddingRecipe& recipe, const ModelFiles& folder) {
  const Config json = Config::load(folder, "config.json");
  const std::int64_t in = json.required_positive_integer("in_features"),
                     out = json.required_positive_integer("out_features");
  const TensorFiles files = TensorFiles::open(folder);
  EmbeddingStep step;
  step.dense = Linear{f32_tensor(files, "linear.weight", {out, in}), {}};
  if (json.boolean("bias", true)) step.dense->bias = f32_tensor(files, "linear.bias", {out});
  step.activation = torch_activation(json);
  recipe.steps.push_back(step);
}

void add_norm_step(EmbeddingRecipe& recipe, const ModelFiles& folder) {
  const Config json = Config::load(folder, "config.json");
  const std::int64_t width = json.required_positive_integer("dimension");
  const TensorFiles files = TensorFiles::open(folder);
  EmbeddingStep step;
  step.norm = Norm{NormKind::layer, f32_tensor(files, "norm.weight", {width}),
                   f32_tensor(files, "norm.bias", {width}), 1e-5};
  recipe.steps.push_back(step);
}

// Returns the folder of a module. Throws Error if it is outside the model's folder, which is all that the
// user chose to read.
ModelFiles folder_of(const Config& module, const ModelFiles& model) {
  const fs::path path = module.string("path", "");
  const bool outside = path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
  if (outside) module.fail("path", "a folder in the model's directory");
  return path.empty() ? model : model.folder(path);
}

void add_module(EmbeddingRecipe& recipe, const Config& module, const ModelFiles& model) {
  const std::string kind = kind_of(module.required_string("type"));
  const ModelFiles folder = folder_of(module, model);
  if (kind == "Transformer") return;
  if (kind == "Pooling") return add_pooling(recipe, Config::load(folder, "config.json"));
  if (kind == kDense) return add_dense(recipe, folder);
  if (kind == kLayerNorm) return add_norm_step(recipe, folder);
  if (kind == "Dropout") return;  // used in training only
  if (kind != "Normalize")
    module.fail("type", "a Transformer, Pooling, Dense, LayerNorm, Dropout or Normalize module");
  EmbeddingStep step;
  step.normalize = true;
  recipe.steps.push_back(step);
}

void read_transformer_settings(EmbeddingRecipe& recipe, const ModelFiles& folder) {
  for (const char* name : {"sentence_bert_config.json", "sentence_roberta_config.json",
                           "sentence_distilbert_config.json", "sentence_camembert_config.json",
                           "sentence_albert_config.json", "sentence_xlm-roberta_config.json"}) {
    if (!folder.has(name)) continue;
    const Config json = Config::load(folder, name);
    recipe.max_length = json.optional_integer("max_seq_length");
    if (recipe.max_length && *recipe.max_length < 1) json.fail("max_seq_length", "at least 1");
    recipe.lower_case = json.boolean("do_lower_case", false);
    return;
  }
}

void read_prompts(EmbeddingRecipe& recipe, const ModelFiles& model) {
  constexpr const char* kFile = "config_sentence_transformers.json";
  if (!model.has(kFile)) return;
  const Config json = Config::load(model, kFile);
  if (const auto prompts = json.optional_sub("prompts")) {
    for (const std::string& name : prompts->names()) recipe.prompts[name] = prompts->string(name, "");
  }
  recipe.similarity = json.string("similarity_fn_name", "");
  const std::string chosen = json.string("default_prompt_name", "");
  if (chosen.empty()) return;
  if (!recipe.prompts.contains(chosen)) json.fail("default_prompt_name", "one of the prompts");
  recipe.prompt = recipe.prompts.at(chosen);
}

// Calls `use` for each module, in the file's order.
template <class Use>
void for_each_module(const ModelFiles& model, Use use) {
  const Config whole = Config::parse("{\"modules\":" + model.text(kModules, file_limits::kConfig) + "}",
                                     model.where(kModules));
  if (whole.names().size() != 1) throw Error(whole.where() + ": expected one list of modules, got more");
  const Config list = whole.sub("modules");
  for (const std::string& index : list.names()) use(list.sub(index));
}

// With the first prompt of the model that has one of these names.
EmbeddingRecipe with_prompt(EmbeddingRecipe recipe, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = recipe.prompts.find(name);
    if (found == recipe.prompts.end()) continue;
    recipe.prompt = found->second;
    break;
  }
  return recipe;
}

// The folder of a module, by its number in modules.json.
std::string module_folder(std::size_t number, const std::string& kind) {
  return fmt::format("{}_{}", number, kind);
}

// Writes the folders of modules, and their list.
class ModuleWriter {
 public:
  explicit ModuleWriter(fs::path directory) : directory_(std::move(directory)) { list_.begin_array(); }
  // Returns the module's folder, which is made unless it is the model's own.
  fs::path add(const std::string& kind, bool has_files) {
    const std::string folder = has_files ? module_folder(count_, kind) : "";
    list_.begin_object().field("idx", count_).field("name", std::to_string(count_)).field("path", folder);
    list_.field("type", "sentence_transformers.models." + kind).end_object();
    ++count_;
    if (has_files) fs::create_directories(directory_ / folder);
    return directory_ / folder;
  }
  void finish() { write_file(directory_ / kModules, list_.end_array().text() + "\n"); }

 private:
  fs::path directory_;
  JsonWriter list_{2};
  std::size_t count_ = 0;
};

void write_json(const fs::path& file, JsonWriter& json) { write_file(file, json.end_object().text() + "\n"); }

void write_pooling(const EmbeddingRecipe& recipe, std::int64_t width, const fs::path& folder) {
  JsonWriter json(2);
  json.begin_object().field("word_embedding_dimension", width);
  const auto uses = [&](Pooling pooling) {
    return std::find(recipe.poolings.begin(), recipe.poolings.end(), pooling) != recipe.poolings.end();
  };
  if (std::is_sorted(recipe.poolings.begin(), recipe.poolings.end())) {
    for (const PoolingKey& one : kPoolings) json.field(one.key, uses(one.pooling));
  } else {  // which older versions cannot say
    std::vector<std::string> names;
    for (const Pooling pooling : recipe.poolings)
      names.emplace_back(std::find_if(std::begin(kPoolings), std::end(kPoolings), [&](const PoolingKey& one) {
                           return one.pooling == pooling;
                         })->name);
    json.field("pooling_mode", names);
  }
  json.field("include_prompt", recipe.pool_prompt);
  write_json(folder / "config.json", json);
}

void write_dense(const EmbeddingStep& step, const fs::path& folder) {
  const Tensor weight = step.dense->weight.tensor();
  const auto named = std::find_if(std::begin(kActivations), std::end(kActivations),
                                  [&](const auto& one) { return one.second == step.activation; });
  JsonWriter json(2);
  json.begin_object().field("in_features", weight.size(1)).field("out_features", weight.size(0));
  json.field("bias", step.dense->bias.defined()).field("activation_function", named->first);
  write_json(folder / "config.json", json);
  std::vector<NamedTensor> tensors{{"linear.weight", weight}};
  if (step.dense->bias.defined()) tensors.push_back({"linear.bias", step.dense->bias});
  save_safetensors(folder / "model.safetensors", tensors);
}

void write_norm(const Norm& norm, const fs::path& folder) {
  JsonWriter json(2);
  json.begin_object().field("dimension", norm.weight.size(0));
  write_json(folder / "config.json", json);
  save_safetensors(folder / "model.safetensors", {{"norm.weight", norm.weight}, {"norm.bias", norm.bias}});
}

}  // namespace

EmbeddingRecipe for_queries(EmbeddingRecipe recipe) { return with_prompt(std::move(recipe), {"query"}); }

EmbeddingRecipe for_documents(EmbeddingRecipe recipe) {
  return with_prompt(std::move(recipe), {"document", "passage"});
}

void save_embedding_recipe(const EmbeddingRecipe& recipe, std::int64_t width, const fs::path& directory) {
  if (recipe.poolings.empty())
    throw Error(directory.string() +
                ": expected a pooling to write, got a model that makes its vectors itself");
  ModuleWriter modules(directory);
  modules.add("Transformer", false);
  write_pooling(recipe, width, modules.add("Pooling", true));
  for (const EmbeddingStep& step : recipe.steps) {
    if (step.dense) write_dense(step, modules.add(kDense, true));
    if (step.norm) write_norm(*step.norm, modules.add(kLayerNorm, true));
    if (step.normalize) modules.add("Normalize", true);
  }
  modules.finish();
  JsonWriter transformer(2);
  transformer.begin_object()
      .field("max_seq_length", recipe.max_length)
      .field("do_lower_case", recipe.lower_case);
  write_json(directory / "sentence_bert_config.json", transformer);
  const auto chosen = std::find_if(recipe.prompts.begin(), recipe.prompts.end(),
                                   [&](const auto& prompt) { return prompt.second == recipe.prompt; });
  JsonWriter settings(2);
  settings.begin_object().field("prompts", recipe.prompts);
  settings.key("default_prompt_name");
  if (recipe.prompt.empty() || chosen == recipe.prompts.end()) {
    settings.value(nullptr);
  } else {
    settings.value(chosen->first);
  }
  settings.field("similarity_fn_name", recipe.similarity.empty() ? "cosine" : recipe.similarity);
  write_json(directory / "config_sentence_transformers.json", settings);
}

std::vector<Parameter> step_parameters(EmbeddingRecipe& recipe) {
  std::vector<Parameter> parameters;
  const auto own = [&](const Tensor& tensor, const std::string& name, bool decays) {
    Tensor copy = tensor.clone().set_requires_grad();
    parameters.push_back({name, copy, decays});
    return copy;
  };
  for (std::size_t i = 0; i < recipe.steps.size(); ++i) {
    EmbeddingStep& step = recipe.steps[i];
    const std::size_t number = kFirstStep + i;
    if (step.dense) {
      const std::string folder = module_folder(number, kDense) + "/";
      const Tensor bias = step.dense->bias;
      step.dense = Linear{own(step.dense->weight.tensor(), folder + "linear.weight", true), {}};
      if (bias.defined()) step.dense->bias = own(bias, folder + "linear.bias", false);
    }
    if (step.norm) {
      const std::string folder = module_folder(number, kLayerNorm) + "/";
      step.norm->weight = own(step.norm->weight, folder + "norm.weight", false);
      step.norm->bias = own(step.norm->bias, folder + "norm.bias", false);
    }
  }
  return parameters;
}

Pooling pooling_named(std::string_view name) {
  if (name == "cls") return Pooling::cls;
  if (name == "max") return Pooling::max;
  if (name == "mean") return Pooling::mean;
  if (name == "mean_sqrt") return Pooling::mean_sqrt;
  if (name == "weighted_mean") return Pooling::weighted_mean;
  if (name == "last") return Pooling::last;
  throw Error("pooling: expected cls, max, mean, mean_sqrt, weighted_mean or last, got " + std::string(name));
}

ModelFiles transformer_files(const ModelFiles& model) {
  ModelFiles found = model;
  if (!model.has(kModules)) return found;
  for_each_module(model, [&](const Config& module) {
    if (kind_of(module.string("type", "")) == "Transformer") found = folder_of(module, model);
  });
  return found;
}

fs::path transformer_directory(const fs::path& directory) {
  return transformer_files(model_files(directory)).where();
}

EmbeddingRecipe load_embedding_recipe(const fs::path& directory, const Model& model) {
  return load_embedding_recipe(model_files(directory), model);
}

EmbeddingRecipe load_embedding_recipe(const ModelFiles& files, const Model& model) {
  EmbeddingRecipe recipe;
  if (!files.has(kModules)) {
    const ModelTraits traits = traits_of(model);
    const auto* encoder = as<EncoderModel>(model);
    if (traits.is(ModelKind::dual_encoder) || (encoder != nullptr && encoder->vector_size() > 0))
      return recipe;
    recipe.poolings = {traits.is(ModelKind::decoder) ? Pooling::last
                       : traits.reads_images()       ? Pooling::cls
                                                     : Pooling::mean};
    return recipe;
  }
  recipe.from_files = true;
  for_each_module(files, [&](const Config& module) { add_module(recipe, module, files); });
  if (recipe.poolings.empty()) throw Error(files.where(kModules) + ": no Pooling module found");
  read_transformer_settings(recipe, transformer_files(files));
  read_prompts(recipe, files);
  return recipe;
}

}  // namespace heed
