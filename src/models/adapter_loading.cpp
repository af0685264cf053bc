// Loads adapters in PEFT's layout.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/edit_distance.h"
#include "files/input_file.h"
#include "heed/autograd.h"
#include "heed/error.h"
#include "heed/io/safetensors.h"
#include "models/adapter_config.h"
#include "models/adapters.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// The name of a tensor below the model's: those of a state dict also have the name of the adapter, "default".
std::string own_name(const std::string& name) {
  std::string own = name.substr(std::min(name.size(), kAdapterPrefix.size()));
  for (const std::string_view part : {".modules_to_save.default", ".modules_to_save", ".default"}) {
    const std::size_t at = own.find(part);
    const std::size_t end = at == own.npos ? at : at + part.size();
    if (end != own.npos && (end == own.size() || own[end] == '.')) return own.erase(at, part.size());
  }
  return own;
}

SafetensorsFile open_tensors(const fs::path& directory) {
  const fs::path file = directory / kAdapterTensors;
  if (!has_entry(file) && has_entry(directory / "adapter_model.bin"))
    throw Error((directory / "adapter_model.bin").string() +
                ": expected safetensors, got a pickle, which can run code when it is read (load and save "
                "the adapter with a PEFT of 2023 or later)");
  return SafetensorsFile::open(file);
}

// The contents of an adapter's directory, checked against a model before anything changes.
class LoadedAdapter {
 public:
  LoadedAdapter(const Weights& weights, const fs::path& directory)
      : weights_(weights), config_(AdapterConfig::load(directory)), file_(open_tensors(directory)) {
    for (const TensorInfo& info : file_.tensors()) read(info.name);
    for (const auto& [row, halves] : adapters_) check_halves(*row, halves);
    check_complete();
  }

  void apply(Weights& weights, double weight) const {
    for (const auto& [row, halves] : adapters_) {
      add_adapter_to(*row, weights[row->name],
                     {.a = halves.a,
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
    const std::string own = own_name(name);
    if (own.find(".original_module.") != own.npos) return;  // what modules_to_save replaces
    for (const AdapterNames* names : {&kMapAdapter, &kTableAdapter}) {
      for (const std::string* end : {&names->a, &names->b}) {
        if (own.ends_with(*end))
          return read_half(name, own.substr(0, own.size() - end->size()), *names, end == &names->a);
      }
    }
    if (own.find(".lora_") != own.npos)
      fail(name,
           "expected lora_A or lora_B of a linear map or a token table, got an adapter of another kind");
    constexpr std::string_view kBase = ".base_layer.";
    const std::size_t base = own.find(kBase);
    if (base == own.npos) return read_whole(name, own);
    read_base(name, own.substr(0, base + 1) + own.substr(base + kBase.size()));
  }

  // Of an adapted output map or token table, PEFT saves the weight as well, changed or not.
  void read_base(const std::string& name, const std::string& own) {
    const TensorRow* row = weights_.find_row(own);
    const bool comparable = row != nullptr && !weights_.is_replaced(row->name);
    if (!comparable || !is_equal(file_.get(name), weights_[row->name].tensor().detach()))
      read_whole(name, own);
  }
  // Up to a rounding from one type to the other.
  static bool is_equal(const Tensor& a, const Tensor& b) {
    if (a.shape() != b.shape() || !is_floating(a.dtype())) return false;
    const bool wide = size_of(a.dtype()) > size_of(b.dtype());
    const DType dtype = wide ? b.dtype() : a.dtype();
    const auto numbers = [&](const Tensor& x) { return x.to(dtype).to(DType::f32).to_vector<float>(); };
    return numbers(a) == numbers(b);
  }

  void read_half(const std::string& name, const std::string& module, const AdapterNames& names, bool is_a) {
    const TensorRow* row = weights_.find_row(module + ".weight");
    if (row == nullptr) fail_unknown(name, module);
    if (!takes_adapter(*row) || &adapter_names(*row) != &names) {
      const std::string kind = &names == &kTableAdapter ? "token table" : "linear map";
      fail(name, "expected an adapter of a " + kind + ", got one of " + row->name);
    }
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
        if (std::find(other.tied.begin(), other.tied.end(), own) != other.tied.end()) row = &other;
      }
      if (row == nullptr) fail_unknown(name, owner_of(own));
    }
    if (!row->tied.empty() && !config_.ties) refuse_tied(file_.path().string() + ": " + name, own, *row);
    const Tensor tensor = numbers(name);
    const auto earlier = whole_.find(row);
    if (!row->tied.empty() && earlier != whole_.end() && is_equal(tensor, earlier->second)) return;
    if (weights_.is_replaced(row->name) || earlier != whole_.end())
      fail(name, "expected one adapter that replaces " + row->name + ", got a second");
    if (tensor.shape() != row->shape)
      fail(name, "expected " + row->shape.str() + ", got " + tensor.str() + hint());
    whole_[row] = tensor;
  }

  [[noreturn]] void fail_unknown(const std::string& name, const std::string& module) const {
    std::vector<std::string> modules;
    for (const TensorRow& row : weights_.rows()) {
      if (takes_adapter(row)) modules.push_back(module_of(row.name));
    }
    const std::string near = nearest_word(module, modules);
    fail(name, "expected a module of the model" + (near.empty() ? "" : ", such as " + near) + ", got " +
                   module + hint());
  }

  void check_halves(const TensorRow& row, const Halves& halves) const {
    const AdapterNames& names = adapter_names(row);
    for (const auto& [tensor, end] : {std::pair(&halves.a, &names.a), std::pair(&halves.b, &names.b)}) {
      if (!tensor->defined())
        fail(kAdapterPrefix + halves.module + *end, "not found, though there is its other half");
    }
    HEED_ASSERT(halves.a.size(0) == halves.b.size(1), row.name.c_str());
    if (config_.ties && row.target == AdapterTarget::token_table && !row.tied.empty())
      fail(kAdapterPrefix + halves.module + names.a, "expected an adapter of the table alone, got one of " +
                                                         row.tied.front() + " as well (ensure_weight_tying)");
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
      if (row.head || is_saved || !takes_adapter(row) || !config_.complete || adapters_.contains(&row))
        continue;
      if (!config_.options.targets.empty() && wanted(module) && !excluded(module))
        fail(kAdapterPrefix + module + adapter_names(row).a, "not found, though target_modules matches it");
    }
  }

  const Weights& weights_;
  AdapterConfig config_;
  SafetensorsFile file_;
  std::map<const TensorRow*, Halves> adapters_;
  std::map<const TensorRow*, Tensor> whole_;
};

}  // namespace

bool unties(const AdapterSource& source, const TensorRow& table, const std::string& output) {
  if (AdapterConfig::load(source.directory).ties) return false;
  const auto is = [](const std::string& own, const std::string& name) {
    return own == name || own.ends_with("." + name) || name.ends_with("." + own);
  };
  const SafetensorsFile file = open_tensors(source.directory);
  for (const TensorInfo& info : file.tensors()) {
    const std::string own = own_name(info.name), module = module_of(output);
    if (is(own, table.name) || own.starts_with(module + ".") || own.find("." + module + ".") != own.npos)
      return true;
  }
  return false;
}

void add_adapter(Weights& weights, const AdapterSource& source) {
  if (!std::isfinite(source.weight))
    throw Error(source.directory.string() + ": expected a finite weight of an adapter, got " +
                std::to_string(source.weight));
  LoadedAdapter(weights, source.directory).apply(weights, source.weight);
}

}  // namespace heed
