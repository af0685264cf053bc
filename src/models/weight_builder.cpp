// Loads, initializes and saves the tensors that a family's walk takes.
#include "models/weight_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "files/input_file.h"
#include "heed/files/file.h"
#include "models/adapter_config.h"
#include "models/config_fields.h"
#include "tensor/impl.h"
#include "tensor/quantized_matrix.h"

namespace heed {
namespace {

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const auto left = TensorImpl::of(a).buffer->read(),
             right = TensorImpl::of(b).buffer->read();  // whole files' tensors
  return std::memcmp(left->data(), right->data(), left->bytes()) == 0;
}

bool is_matrix(const TensorRow& row) { return row.init == Init::xavier || row.init == Init::embedding; }

Tensor random_tensor(const TensorRow& row, RandomStream stream) {
  Tensor tensor = Tensor::empty(row.shape);
  float* values = tensor.data<float>();
  const auto count = static_cast<std::uint64_t>(tensor.numel());
  if (row.init_std > 0 || row.init == Init::embedding) {
    const float init_std = row.init_std > 0 ? static_cast<float>(row.init_std)
                                            : 1.0f / std::sqrt(static_cast<float>(row.shape[-1]));
    for (std::uint64_t i = 0; i < count; ++i) values[i] = init_std * stream.normal(i);
  } else {
    const float limit = row.init == Init::uniform
                            ? static_cast<float>(row.range)
                            : std::sqrt(6.0f / static_cast<float>(row.shape[0] + row.shape[-1]));
    for (std::uint64_t i = 0; i < count; ++i) values[i] = limit * (2.0f * stream.uniform(i) - 1.0f);
  }
  return tensor;
}

Tensor initial_tensor(const TensorRow& row, RandomStream stream) {
  if (row.init == Init::zeros && !row.fill) return Tensor::zeros(row.shape);
  if (row.init == Init::ones && !row.fill) return Tensor::full(row.shape, 1.0);
  Tensor tensor = row.fill ? Tensor::empty(row.shape) : random_tensor(row, stream);
  if (row.fill) row.fill(tensor);
  if (row.padding) std::fill_n(tensor.data<float>() + *row.padding * row.shape[1], row.shape[1], 0.0f);
  return tensor;
}

// A tensor of the shape, all of whose elements are one in memory.
Tensor without_memory(const Shape& shape) {
  Shape strides = shape;
  std::fill(strides.begin(), strides.end(), 0);
  return Tensor::zeros({1}).as_strided(shape, strides, 0);
}

/// Matrices take the dtype asked for; biases and norms stay wide where that is narrow, as they cost little.
DType kept_dtype(const TensorRow& row, DType dtype) {
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  return narrow && !(row.trained && row.shape.rank() > 1) ? DType::f32 : dtype;
}

// The standard deviation of new matrices, by the config or the family.
double initializer_range(const Config& config, double of_family) {
  const char* key = config.has("init_std") ? "init_std" : "initializer_range";
  return config.has(key) ? positive_number(config, key, of_family) : of_family;
}

// What generation needs to know of a new model.
std::string generation_of(const Config& config) {
  JsonWriter json(2);
  json.begin_object();
  for (const char* key : {"bos_token_id", "decoder_start_token_id", "eos_token_id", "forced_bos_token_id",
                          "forced_eos_token_id", "pad_token_id"}) {
    const std::vector<std::int64_t> ids = config.integers(key);
    if (ids.size() == 1) json.field(key, ids.front());
    if (ids.size() > 1) json.field(key, ids);
  }
  return json.end_object().text() + "\n";
}

}  // namespace

WeightBuilder::WeightBuilder(const WeightSource& source) : source_(source) {
  const Config& config = source_->config;
  if (source.generator != nullptr) init_std_ = initializer_range(config, source.initializer_range);
  if (!source.files) {
    refuse_unknown_keys(config);
    return;
  }
  if (is_adapter(source.files->path())) throw_adapter(source.files->where());
  constexpr const char* kGeneration = "generation_config.json";
  if (source.files->has(kGeneration)) generation_ = source.files->text(kGeneration, file_limits::kConfig);
  files_ = TensorFiles::open(*source.files);
}

// The name under which the files hold what the walk calls `name`, or "".
std::string WeightBuilder::held_name(const std::string& name) const {
  const std::string& prefix = weights_.prefix_;
  if (files_->contains(name)) return name;
  if (prefix.empty() || !name.starts_with(prefix)) return "";
  const std::string bare = name.substr(prefix.size());
  return files_->contains(bare) ? bare : "";
}

// The name under which the files hold a row, or "".
std::string WeightBuilder::stored_name(const TensorRow& row) const {
  std::string held = held_name(row.name);
  for (const auto* names : {&row.tied, &row.aliases}) {
    for (const std::string& other : *names) {
      if (held.empty()) held = held_name(other);
    }
  }
  return held;
}

// Norms of early files have gamma and beta; a body may lie below a prefix.
std::vector<std::string> WeightBuilder::other_names(const std::string& name) const {
  constexpr std::string_view weight = "LayerNorm.weight", bias = "LayerNorm.bias";
  std::vector<std::string> names;
  if (name.ends_with(weight)) names.push_back(name.substr(0, name.size() - 6) + "gamma");
  if (name.ends_with(bias)) names.push_back(name.substr(0, name.size() - 4) + "beta");
  if (body_prefix_.empty()) return names;
  const std::size_t own = names.size();
  names.push_back(body_prefix_ + name);
  for (std::size_t i = 0; i < own; ++i) names.push_back(body_prefix_ + names[i]);
  return names;
}

bool WeightBuilder::has(const std::string& name) const {
  return !files_ || !stored_name({.name = name, .shape = {}, .aliases = other_names(name)}).empty();
}

void WeightBuilder::ignore(const std::string& name) {
  weights_.ignored_names_.insert(name);
  for (const std::string& other : other_names(name)) weights_.ignored_names_.insert(other);
}

const Weight& WeightBuilder::take(TensorRow row) {
  const std::string name = row.name;
  HEED_ASSERT(!weights_.contains(name), name.c_str());
  for (const std::string& other : other_names(name)) row.aliases.push_back(other);
  row.head = architecture_.has_value();
  if (is_matrix(row) && row.init_std == 0) row.init_std = init_std_;
  names_.insert(name);
  names_.insert(row.tied.begin(), row.tied.end());
  names_.insert(row.aliases.begin(), row.aliases.end());
  if (files_) {
    read(row);
  } else {
    weights_.add(row, source_ ? initial_tensor(row, source_->generator->next()) : without_memory(row.shape));
  }
  return weights_[name];
}

// Tied names under which the files have numbers of their own, as rows of their own.
std::vector<TensorRow> WeightBuilder::separate_untied(TensorRow& row, const std::string& held) const {
  std::vector<TensorRow> separate;
  std::erase_if(row.tied, [&](const std::string& name) {
    const std::string other = held_name(name);
    if (other.empty() || other == held || same_bytes(files_->get(held), files_->get(other))) return false;
    separate.push_back({.name = name, .shape = row.shape, .init = row.init, .trained = row.trained});
    return true;
  });
  return separate;
}

void WeightBuilder::read(const TensorRow& row) {
  const std::string held = stored_name(row);
  if (held.empty() && row.required && !(row.head && source_->generator != nullptr)) {
    if (row.head && missing_head_.empty()) missing_head_ = row.name;
    missing_.push_back(row.name);
  }
  if (!failed()) {
    try {
      TensorRow own = row;
      const std::vector<TensorRow> separate = separate_untied(own, held);
      read_row(own, held);
      for (const TensorRow& other : separate) read_row(other, stored_name(other));
      return;
    } catch (const Error&) {
      error_ = std::current_exception();
    }
  }
  std::vector<std::string> names = row.tied;
  names.push_back(row.name);
  for (const std::string& name : names) {
    if (!weights_.contains(name)) weights_.add({.name = name, .shape = row.shape}, without_memory(row.shape));
  }
}

void WeightBuilder::read_row(const TensorRow& row, const std::string& name) {
  Generator* new_head = source_->generator;
  const DType dtype = kept_dtype(row, source_->dtype);
  const bool is_new =
      new_head != nullptr && row.head && (name.empty() || files_->get(name).shape() != row.shape);
  if (name.empty() || is_new) {
    if (is_new) weights_.new_rows_.insert(row.name);
    const RandomStream stream = is_new ? new_head->next() : RandomStream{};
    return weights_.add(row, initial_tensor(row, stream).to(dtype));
  }
  const Tensor stored = files_->get(name);
  if (stored.shape() != row.shape || !is_floating(stored.dtype())) {
    throw Error(files_->path_of(name).string() + ": " + name + ": expected floating numbers " +
                row.shape.str() + " (from config.json), got " + stored.str());
  }
  weights_.add(row, quantized_of(stored) != nullptr ? stored : stored.to_lazy(dtype));
}

Linear WeightBuilder::linear(const std::string& name, std::int64_t out, std::int64_t in, bool with_bias) {
  Linear part{take({.name = name + ".weight", .shape = {out, in}, .target = AdapterTarget::linear}), {}};
  if (with_bias) part.bias = bias(name + ".bias", out);
  return part;
}

Tensor WeightBuilder::bias(const std::string& name, std::int64_t dim) {
  return tensor({.name = name, .shape = {dim}, .init = Init::zeros});
}

Norm WeightBuilder::layer_norm(const std::string& name, std::int64_t dim, double eps, bool with_bias) {
  Norm part{NormKind::layer, tensor({.name = name + ".weight", .shape = {dim}, .init = Init::ones}), {}, eps};
  if (with_bias) part.bias = bias(name + ".bias", dim);
  return part;
}

Norm WeightBuilder::rms_norm(const std::string& name, std::int64_t dim, double eps, double offset) {
  const Init init = offset == 0 ? Init::ones : Init::zeros;
  return {NormKind::rms, tensor({.name = name + ".weight", .shape = {dim}, .init = init}), {}, eps, offset};
}

const Weight& WeightBuilder::embedding(const std::string& name, std::int64_t count, std::int64_t dim,
                                       std::optional<std::int64_t> padding, const OutputMap& output) {
  TensorRow row{.name = name,
                .shape = {count, dim},
                .init = Init::embedding,
                .target = AdapterTarget::token_table,
                .padding = padding};
  if (output.tied) row.tied.push_back(output.name);
  return take(std::move(row));
}

// Where it is asked for, or adapters need it, gives a tied output map numbers of its own, those of the table;
// and the tables of stacks that share it too, since nothing is tied where config.json says that the output
// map is not.
void WeightBuilder::separate(const std::string& output) {
  const auto is_its = [&](const TensorRow& row) {
    return row.name == output || std::find(row.tied.begin(), row.tied.end(), output) != row.tied.end();
  };
  const auto found = std::find_if(weights_.rows_.begin(), weights_.rows_.end(), is_its);
  if (found == weights_.rows_.end()) return;
  const bool wanted =
      source_->separate_output ||
      std::any_of(source_->adapters.begin(), source_->adapters.end(),
                  [&](const AdapterSource& adapter) { return unties(adapter, *found, output); });
  if (!wanted) return;
  if (found->name == output) found->target = AdapterTarget::output;  // the files have its numbers
  if (found->name == output) return;
  const TensorRow table = *found;
  found->tied.clear();
  for (const std::string& name : table.tied) {
    weights_.weights_.erase(name);
    read_row({.name = name,
              .shape = table.shape,
              .target = name == output ? AdapterTarget::output : AdapterTarget::none},
             stored_name(table));
    if (source_->separate_output || quantized_of(weights_[name].tensor()) != nullptr) continue;
    // The file's numbers are one in memory, and an adapter writes its own over them.
    Tensor own = weights_[name].tensor().detach().clone();
    weights_.replace(name, own.set_requires_grad());
  }
  untied_ = true;
}

Weight WeightBuilder::output(const OutputMap& output, std::int64_t vocabulary, std::int64_t dim) {
  if (output.tied && files_ && !failed()) separate(output.name);
  if (output.tied) return weights_[output.name];
  if (!output.headless)
    return take({.name = output.name, .shape = {vocabulary, dim}, .target = AdapterTarget::output});
  ignore(output.name);
  return {};
}

void WeightBuilder::check_complete() const {
  if (!files_) return;
  const std::string where = files_->path().string();
  if (!missing_head_.empty()) {
    throw Error(where + ": expected the head of " + *architecture_ +
                " (config.json: architectures), got no tensor " + missing_head_ +
                " (train the head first, or name an architecture the file holds)");
  }
  if (!missing_.empty()) {
    throw Error(where + ": tensors that config.json describes not found: " + name_list(missing_));
  }
  if (error_) std::rethrow_exception(error_);
}

// Early GPTQ files have a bias of zeros beside every map, which changes nothing.
std::vector<std::string> WeightBuilder::unused_tensors() const {
  std::vector<std::string> unused;
  if (!files_) return unused;
  const auto among = [&](const std::set<std::string>& names, const std::string& name) {
    return names.contains(name) || (!weights_.prefix_.empty() && names.contains(weights_.prefix_ + name));
  };
  constexpr std::string_view kBias = "bias";
  for (const std::string& name : files_->names()) {
    if (among(names_, name) || among(weights_.ignored_names_, name)) continue;
    const std::string weight =
        name.ends_with(".bias") ? name.substr(0, name.size() - kBias.size()) + "weight" : "";
    if (weight.empty() || !among(names_, weight)) {
      unused.push_back(name);
      continue;
    }
    const std::vector<float> bias = files_->get(name).to(DType::f32).to_vector<float>();
    if (std::any_of(bias.begin(), bias.end(), [](float value) { return value != 0; })) {
      throw Error(
          files_->path_of(name).string() + ": " + name +
          ": expected no bias, or one of zeros (from config.json), got other numbers (config and weights "
          "may belong to different models)");
    }
  }
  return unused;
}

ModelContents WeightBuilder::finish() {
  HEED_ASSERT(source_.has_value(), "a builder that only lists has no model");
  check_complete();
  std::vector<std::string> unused = unused_tensors();
  for (const std::string& name : names_) weights_.ignored_names_.erase(name);
  ModelContents files{source_->config, std::move(generation_), std::move(weights_)};
  files.unused = std::move(unused);
  files.untied = untied_;
  for (const AdapterSource& adapter : source_->adapters) add_adapter(files.weights, adapter);
  for (const std::string& row : files.weights.new_rows()) {
    if (!source_->adapters.empty() && !files.weights.is_replaced(row))
      throw Error(source_->files->where() + ": expected " + row +
                  " in the model or its adapter, got neither (" +
                  source_->adapters.front().directory.string() + " was trained on a model that has it)");
  }
  return files;
}

void ModelContents::save(const std::filesystem::path& directory, DType dtype, bool generates) const {
  if (!trained && weights.is_adapted())
    throw Error(config.where() +
                ": expected a model without adapters to save, got one with (merge them first)");
  write_file(directory / "config.json",
             config_for_saving(untied ? config.with(R"({"tie_word_embeddings": false})") : config, dtype,
                               quantization) +
                 "\n");
  if (trained) return trained->save(directory, dtype);
  if (generates)
    write_file(directory / "generation_config.json", generation.empty() ? generation_of(config) : generation);
  save_safetensors(directory / "model.safetensors", weights.stored(dtype));
}

}  // namespace heed
