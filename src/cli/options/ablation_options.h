// The options of ablation, of heed heads and heed attend: --ablation, --reference and --remove.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "heed/inspect/ablation.h"
#include "heed/inspect/record.h"

namespace heed::cli {

struct AblationArguments {
  std::optional<std::string> ablation;  // a word of --ablation
  std::string reference, remove;

  /// "its mean": what stands in the place of an output.
  const char* replacement() const;
};

/// Adds the options; `implies` follows --ablation's first words: " (implies --ablate)".
void add_ablation_options(CLI::App& command, AblationArguments& arguments, const std::string& implies);
/// Throws UsageError for --reference without a replacement that needs it.
void check_ablation(const AblationArguments& arguments);
/// Replacement, seed and removed components, heads being those of `kind`. Throws UsageError for a name of
/// --remove that is none.
AblationOptions ablation_options(const AblationArguments& arguments, const AttentionKind& kind,
                                 const Globals& globals);
/// The inputs that `read` makes of the lines of --reference. Throws Error if there are none in the file.
std::vector<TensorMap> reference_inputs(const AblationArguments& arguments, const Globals& globals,
                                        const std::function<TensorMap(const std::string&)>& read);

}  // namespace heed::cli
