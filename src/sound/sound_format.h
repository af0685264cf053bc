// Which kind of file a recording is, and whether it is whole.
#pragma once

#include "sound/byte_source.h"

namespace heed::sound {

/// Throws Error unless the first bytes are those of a WAV, FLAC, Ogg or MP3 file, so that no other reader of
/// libsndfile sees them. Also throws for a WAV, Ogg or MP3 file that is shorter than its headers say, which
/// libsndfile would decode as far as it goes. (Of FLAC, the decoder counts the samples.)
void check_format(ByteSource& source);

}  // namespace heed::sound
