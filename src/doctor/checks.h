// All checks. Each looks at one thing and says what it found; src/doctor/doctor.cpp lists them with what they
// need, and docs/doctor.md has their thresholds and the reasons.
#pragma once

#include "doctor/examination.h"

namespace heed::doctor {

// Files (file_checks.cpp, vocabulary_checks.cpp, weight_checks.cpp)
Finding check_config_keys(Examination& e);
Finding check_generation_settings(Examination& e);
Finding check_chat_template(Examination& e);
Finding check_tied_weights(Examination& e);
Finding check_tokenizer_size(Examination& e);
Finding check_special_ids(Examination& e);
Finding check_unused_vocabulary(Examination& e);
Finding check_weights_finite(Examination& e);
Finding check_weight_rows(Examination& e);
Finding check_weight_norms(Examination& e);

// Behaviour (order_checks.cpp, invariance_checks.cpp, decoding_checks.cpp)
Finding check_outputs_finite(Examination& e);
Finding check_causality(Examination& e);
Finding check_order(Examination& e);
Finding check_right_padding(Examination& e);
Finding check_left_padding(Examination& e);
Finding check_batch(Examination& e);
Finding check_threads(Examination& e);
Finding check_cache(Examination& e);
Finding check_beams(Examination& e);

// Attention and layers (attention_checks.cpp, head_check.cpp, length_check.cpp)
Finding check_attention_rows(Examination& e);
Finding check_scores(Examination& e);
Finding check_heads(Examination& e);
Finding check_residual(Examination& e);
Finding check_lengths(Examination& e);

}  // namespace heed::doctor
