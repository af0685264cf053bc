// Loads adapters in PEFT's layout.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/edit_distance.h"
#include "core/input_file.h"
#include "heed/error.h"
#include "heed/io/safetensors.h"
#include "models/adapter_config.h"
#include "models/adapter_modules.h"
#include "models/adapters.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// The contents of an adapter's directory, checked against a model before anything changes.
class LoadedAdapter {
 public:
  LoadedAdapter(const Weights& weights, const fs::path& directory)
      : weights_(weights), config_(AdapterConfig::load(directory)), file_(open(directory)) {
    for (const TensorInfo& info : file_.tensors()) read(info.name);
    for (const auto& [row, halves] : adapters_) check_halves(*row, halves);
    check_complete();
  }

  void apply(Weights& weights, double weight) const {
    for (const auto& [row, halves] : adapters_) {
      weights[row->name].add_adapter({.a = halves.a,
                                      .b = halves.b,
                                      .scale = weight * config_.scale(halves.module),
                                      .dropout = config_.options.dropout});
    }
    for (const auto& [row, tensor] : whole_) {
      weights[row->name].tensor().copy_from(tensor);
      weights.set_replaced(row->name);
    }
  }

 private:
  struct Halves {
    std::string module;  // in the file
    Tensor a, b;
  };

  static SafetensorsFile open(const fs::path& directory) {
    const fs::path file = directory / kAdapterTensors;
    if (!has_entry(file) && has_entry(directory / "adapter_model.bin"))
      throw Error((directory / "adapter_model.bin").string() +
                  ": expected safetensors, got a pickle, which can run code when it is read (load and save "
                  "the adapter with a PEFT of 2023 or later)");
    return SafetensorsFile::open(file);
  }
  [[noreturn]] void fail(const std::string& name, const std::string& message) const {
    throw Error(file_.path().string() + ": " + name + ": " + message);
  }
  std::string hint() const {
    return config_.base.empty() ? " (the adapter may belong to another model)"
                                : " (the adapter belongs to " + config_.base + ")";
  }

  Tensor numbers(const std::string& name) const {
    const Tensor tensor = file_.get(name);
    if (!is_floating(tensor.dtype())) fail(name, "expected floating numbers, got " + tensor.str());
    return tensor.to(DType::f32);
  }

  void read(const std::string& name) {
    if (!name.starts_with(kAdapterPrefix)) fail(name, "expected a name that begins with " + kAdapterPrefix);
    const std::string own = name.substr(kAdapterPrefix.size());
    if (own.ends_with(kLoraA) || own.ends_with(kLoraB))
      return read_half(name, own.substr(0, own.size() - kLoraA.size()), own.ends_with(kLoraA));
    if (own.find(".lora_") != own.npos)
      fail(name, "expected lora_A.weight or lora_B.weight of a linear map, got an adapter of another kind");
    // Of an adapted output map, PEFT saves the weight as well.
    constexpr std::string_view kBase = ".base_layer.";
    const std::size_t base = own.find(kBase);
    read_whole(name, base == own.npos ? own : own.substr(0, base + 1) + own.substr(base + kBase.size()));
  }

  void read_half(const std::string& name, const std::string& module, bool is_a) {
    const TensorRow* row = weights_.find_row(module + ".weight");
    if (row == nullptr) fail_unknown(name, module);
    if (!is_map(*row)) fail(name, "expected an adapter of a linear map, got one of " + row->name);
    Halves& halves = adapters_[row];
    if (!halves.module.empty() && halves.module != module)
      fail(name, "expected one adapter for " + row->name + ", got also one for " + halves.module);
    halves.module = module;
    const Shape expected =
        is_a ? Shape{config_.rank(module), size_in(*row)} : Shape{size_out(*row), config_.rank(module)};
    const Tensor tensor = numbers(name);
    if (tensor.shape() != expected)
      fail(name, "expected " + expected.str() + " for a map of " + std::to_string(size_in(*row)) + " to " +
                     std::to_string(size_out(*row)) + " numbers, got " + tensor.str() + hint());
    (is_a ? halves.a : halves.b) = tensor;
  }

  void read_whole(const std::string& name, const std::string& own) {
    const TensorRow* row = weights_.find_row(own);
    if (row == nullptr) {
      // The heads of a model that is loaded without its head.
      if (weights_.ignored_names().contains(own)) return;
      for (const TensorRow& other : weights_.rows()) {
        if (std::find(other.tied.begin(), other.tied.end(), own) != other.tied.end())
          refuse_tied(file_.path().string() + ": " + name, own, other);
      }
      fail_unknown(name, owner_of(own));
    }
    if (!row->tied.empty()) refuse_tied(file_.path().string() + ": " + name, own, *row);
    if (weights_.is_replaced(row->name) || whole_.contains(row))
      fail(name, "expected one adapter that replaces " + row->name + ", got a second");
    const Tensor tensor = numbers(name);
    if (tensor.shape() != row->shape)
      fail(name, "expected " + row->shape.str() + ", got " + tensor.str() + hint());
    whole_[row] = tensor;
  }

  [[noreturn]] void fail_unknown(const std::string& name, const std::string& module) const {
    std::vector<std::string> modules;
    for (const TensorRow& row : weights_.rows()) {
      if (is_map(row)) modules.push_back(module_of(row.name));
    }
    const std::string near = nearest_word(module, modules);
    fail(name, "expected a module of the model" + (near.empty() ? "" : ", such as " + near) + ", got " +
                   module + hint());
  }

  void check_halves(const TensorRow& row, const Halves& halves) const {
    for (const auto& [tensor, end] : {std::pair(&halves.a, &kLoraA), std::pair(&halves.b, &kLoraB)}) {
      if (!tensor->defined())
        fail(kAdapterPrefix + halves.module + *end, "not found, though there is its other half");
    }
    HEED_ASSERT(halves.a.size(0) == halves.b.size(1), row.name.c_str());
  }

  // PEFT takes a missing adapter for one that was never trained.
  void check_complete() const {
    if (adapters_.empty() && whole_.empty())
      throw Error(file_.path().string() + ": expected the tensors of an adapter, got none");
    const std::vector<std::string>& saved = config_.options.train;
    const ModuleTest wanted = targets_test(config_.options.targets, config_.where + ": target_modules");
    const ModuleTest excluded = targets_test(config_.excluded, config_.where + ": exclude_modules");
    for (const TensorRow& row : weights_.rows()) {
      const std::string module = module_of(row.name);
      const bool is_saved = is_within_any(owner_of(row.name), saved);
      if (is_saved && row.trained && !whole_.contains(&row))
        fail(kAdapterPrefix + row.name, "not found, though modules_to_save names it");
      if (row.head || is_saved || !is_map(row) || !config_.complete || adapters_.contains(&row)) continue;
      if (!config_.options.targets.empty() && wanted(module) && !excluded(module))
        fail(kAdapterPrefix + module + kLoraA, "not found, though target_modules matches it");
    }
  }

  const Weights& weights_;
  AdapterConfig config_;
  SafetensorsFile file_;
  std::map<const TensorRow*, Halves> adapters_;
  std::map<const TensorRow*, Tensor> whole_;
};

}  // namespace

void add_adapter(Weights& weights, const AdapterSource& source) {
  if (!std::isfinite(source.weight))
    throw Error(source.directory.string() + ": expected a finite weight of an adapter, got " +
                std::to_string(source.weight));
  LoadedAdapter(weights, source.directory).apply(weights, source.weight);
}

}  // namespace heed
