// Checks of TranscribeOptions: those that a model of speech does not have are refused.
#pragma once

#include <string>

#include "heed/tasks/transcribe.h"

namespace heed::tasks {

/// Throws Error `transcribe: FIELD: …`, of TranscribeOptions, for options that are out of range or that this
/// Whisper does not have.
void check_whisper_options(const SpeechSettings& settings, const TranscribeOptions& options);

/// The English name of a language, `english`, by its code; the code where it has none.
std::string language_name(const std::string& code);

/// The length of a window where the options say none.
inline constexpr double kUsualWindowSeconds = 30;

/// The same for a model that reads samples. `decodes`: it has a decoder, which searches; without one it has
/// the times of words.
void check_sample_options(const std::string& family, bool decodes, const TranscribeOptions& options);

}  // namespace heed::tasks
