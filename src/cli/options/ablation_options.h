// The options of ablation, of heed ablate and heed attend: --remove, --ablation and --reference.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "heed/inspect/ablation.h"

namespace heed::cli {

struct AblationArguments {
  std::string remove;
  std::optional<Replacement> replacement;
  std::string reference;

  void add_to(CLI::App& command, const char* remove_help);
  /// Throws UsageError for --reference without a replacement that needs it.
  void check() const;
  /// The inputs that `read` makes of the lines of --reference. Throws Error if there are none in the file.
  std::vector<TensorMap> reference_inputs(const Globals& globals,
                                          const std::function<TensorMap(const std::string&)>& read) const;
};

}  // namespace heed::cli
