// The modules of a model as adapters name them, and the names of their tensors in PEFT's files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/models/tensor_table.h"

namespace heed {

// base_model.model.MODULE.lora_A.weight [r, in], ....lora_B.weight [out, r]
inline const std::string kAdapterPrefix = "base_model.model.", kLoraA = ".lora_A.weight",
                         kLoraB = ".lora_B.weight";

/// Whether an adapter can be added to a row.
bool is_map(const TensorRow& row);
std::int64_t size_in(const TensorRow& row);
std::int64_t size_out(const TensorRow& row);
/// The module of a weight; empty for other tensors.
std::string module_of(const std::string& tensor);
/// The module to which a tensor belongs.
std::string owner_of(const std::string& tensor);
/// Whether `module` is `name` or within it, PEFT's rule for modules_to_save.
bool is_within(const std::string& module, const std::string& name);
bool is_within_any(const std::string& module, const std::vector<std::string>& names);
/// Throws Error for a module whose weight is that of another one.
[[noreturn]] void refuse_tied(const std::string& where, const std::string& module, const TensorRow& row);

}  // namespace heed
