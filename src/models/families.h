// The families of models, each defined at the end of its file.
#pragma once

#include "models/family.h"

namespace heed {

Family albert_family();
Family bart_family();
Family bert_family();
Family bloom_family();
Family deberta_family();
Family distilbert_family();
Family gemma2_family();
Family gemma3_family();
Family gpt2_family();
Family gpt_neox_family();
Family granite_family();
Family llama_family();
Family m2m100_family();
Family marian_family();
Family mistral_family();
Family mixtral_family();
Family modernbert_family();
Family mpnet_family();
Family mpt_family();
Family olmo2_family();
Family pegasus_family();
Family phi3_family();
Family qwen2_family();
Family qwen3_family();
Family qwen3_moe_family();
Family recurrent_family();
Family roberta_family();
Family smollm3_family();
Family t5_family();
Family transformer_family();
Family vit_family();
Family whisper_family();

}  // namespace heed
