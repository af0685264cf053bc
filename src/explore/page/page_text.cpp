// Fills in what differs between a page of a server and one in a file.
#include "explore/page/page_text.h"

#include "explore/page.h"
#include "heed/error.h"

namespace heed::explore {
namespace {

/// The page with its marks replaced; `recording` last, in which no mark is looked for.
std::string filled(std::string_view nonce, std::string_view policy, std::string_view recording) {
  std::string page;
  std::string_view rest = kExplorePage;
  const auto copy_until = [&](std::string_view mark, std::string_view value) {
    const std::size_t at = rest.find(mark);
    HEED_ASSERT(at != rest.npos, "a mark is missing");
    page += rest.substr(0, at);
    page += value;
    rest.remove_prefix(at + mark.size());
  };
  copy_until("@POLICY@", policy);
  copy_until("@NONCE@", nonce);
  copy_until("@RECORDING@", recording);
  copy_until("@NONCE@", nonce);
  page += rest;
  return page;
}

}  // namespace

std::string served_page(std::string_view nonce) {
  return filled(" nonce=\"" + std::string(nonce) + '"', "", "");
}

std::string recorded_page(std::string_view recording) {
  std::string policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ";
  policy.append("script-src 'sha256-").append(kExploreScriptHash);
  policy.append("'; style-src 'sha256-").append(kExploreStyleHash);
  policy += "'; img-src data: blob:; base-uri 'none'; form-action 'none'\">\n";
  std::string element = "<script type=\"text/plain\" id=\"recording\">";
  element.append(recording).append("</script>\n");
  return filled("", policy, element);
}

}  // namespace heed::explore
