// The LLaMA family: its config; the parts are those of llama_common.h.
#include "models/families.h"
#include "models/families/llama_common.h"

namespace heed {
namespace {

LlamaConfig parse_llama(const Config& json) {
  LlamaConfig c = LlamaConfig::parse(json, {});
  c.read_biases(json);
  return c;
}

}  // namespace

Family llama_family() { return family<parse_llama, build_llama>({"llama"}); }

}  // namespace heed
