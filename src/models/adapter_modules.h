// The modules of a model as adapters name them, and the names of their tensors in PEFT's files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heed/models/tensor_table.h"

namespace heed {

inline const std::string kAdapterPrefix = "base_model.model.";

/// How the names of an adapter's two matrices end.
struct AdapterNames {
  std::string a, b;
};
/// base_model.model.MODULE.lora_A.weight [r, in], ....lora_B.weight [out, r]; of a token table
/// ....lora_embedding_A [r, V], ....lora_embedding_B [D, r].
inline const AdapterNames kMapAdapter{".lora_A.weight", ".lora_B.weight"},
    kTableAdapter{".lora_embedding_A", ".lora_embedding_B"};
const AdapterNames& adapter_names(const TensorRow& row);

/// Whether an adapter can be added to a row: to a linear map or a token table.
bool takes_adapter(const TensorRow& row);
/// Whether the weight is [in, out], as a table is with in = V and out = D.
bool stored_in_first(const TensorRow& row);
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
