// What the page of heed explore sends: a request is read, or refused in one short line. And model cards.
#include <cstdlib>
#include <string_view>

#include "explore/model/model_card.h"
#include "explore/requests.h"
#include "heed/error.h"
#include "reader.h"

namespace {

template <class Parse>
void check_request(std::string_view text, Parse parse) {
  try {
    parse(text);
  } catch (const heed::Error& error) {
    const std::string_view message = error.what();
    if (message.find('\n') != message.npos || message.size() > 400) ::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = heed::fuzz::text_of(data, size);
  check_request(text, heed::explore::read_request<heed::explore::RunRequest>);
  check_request(text, heed::explore::read_request<heed::explore::AblationRequest>);
  check_request(text, heed::explore::read_request<heed::explore::FlowRequest>);
  check_request(text, heed::explore::read_request<heed::explore::StepsRequest>);
  check_request(text, heed::explore::read_request<heed::explore::WhyRequest>);
  check_request(text, heed::explore::read_request<heed::explore::MistakesRequest>);
  for (const std::string& example : heed::explore::examples_in_card(text)) {
    if (example.empty() || example.size() > 500) ::abort();
  }
  return 0;
}
