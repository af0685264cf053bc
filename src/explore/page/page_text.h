// The text of the page: for a server, or with a recording for a file.
#pragma once

#include <string>
#include <string_view>

namespace heed::explore {

/// The page for a server, whose script and style have the nonce.
std::string served_page(std::string_view nonce);

/// The page for a file: a policy that runs its own script and style only and forbids all requests, and the
/// recording, in base64, which the page reads instead of asking a server.
std::string recorded_page(std::string_view recording);

}  // namespace heed::explore
