// Names and sizes of modules.
#include "models/adapter_modules.h"

#include <algorithm>
#include <string_view>

#include "heed/error.h"

namespace heed {

bool takes_adapter(const TensorRow& row) { return row.map != MapKind::none; }

const AdapterNames& adapter_names(const TensorRow& row) {
  return row.map == MapKind::table ? kTableAdapter : kMapAdapter;
}

std::string module_of(const std::string& tensor) {
  constexpr std::string_view kEnd = ".weight";
  return tensor.ends_with(kEnd) ? tensor.substr(0, tensor.size() - kEnd.size()) : "";
}

std::string owner_of(const std::string& tensor) { return tensor.substr(0, tensor.rfind('.')); }

bool is_within_any(const std::string& module, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return is_within(module, name); });
}

bool stored_in_first(const TensorRow& row) {
  return row.map == MapKind::transposed || row.map == MapKind::table;
}
std::int64_t size_in(const TensorRow& row) { return row.shape[stored_in_first(row) ? 0 : 1]; }
std::int64_t size_out(const TensorRow& row) { return row.shape[stored_in_first(row) ? 1 : 0]; }

bool is_within(const std::string& module, const std::string& name) {
  return ("." + module + ".").find("." + name + ".") != std::string::npos;
}

void refuse_tied(const std::string& where, const std::string& module, const TensorRow& row) {
  throw Error(where + ": expected a module with a weight of its own, got " + module +
              ", which shares its weight (" + row.name + ")");
}

}  // namespace heed
