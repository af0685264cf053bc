// Chat templates, with the variables that they are rendered with.
#include "heed/chat/chat_template.h"

#include "reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const heed::fuzz::Folder folder;
  constexpr std::string_view kMark = "\n%%%%\n";
  std::string_view text = heed::fuzz::text_of(data, size),
                   variables = R"({"messages": [{"role": "user", "content": "Hi"}]})";
  if (const std::size_t end = text.find(kMark); end != text.npos) {
    variables = text.substr(end + kMark.size());
    text = text.substr(0, end);
  }
  heed::fuzz::check(folder, [&] {
    heed::RenderOptions options;
    options.constants = R"({"bos_token": "<s>", "eos_token": "</s>"})";
    options.now = 0;
    options.limits = {200'000, std::int64_t{64} << 20};
    const auto parsed = heed::ChatTemplate::parse(text, (folder.path() / "chat_template.jinja").string());
    const heed::RenderedChat chat = parsed.render(variables, options);
    for (const auto* spans : {&chat.data, &chat.generated}) {
      std::size_t last = 0;
      for (const heed::TextSpan& span : *spans) {
        if (span.begin < last || span.end <= span.begin || span.end > chat.text.size()) ::abort();
        last = span.end;
      }
    }
  });
  return 0;
}
