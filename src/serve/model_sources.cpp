// Opening, and what tells that files have changed.
#include "serve/model_sources.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "heed/models/find_model.h"
#include "serve/inspection.h"

namespace heed::serve {
namespace {

using std::filesystem::path;

std::shared_ptr<ServedModel> opened(const ModelSource& source) {
  std::string files = state_of_files(source);  // before they are read, so that no later change is missed
  auto model = std::make_shared<ServedModel>(serve_model(source.name, load(source.path, source.options)));
  model->files = std::move(files);
  model->aliases = source.aliases;
  return model;
}

// A renamed file keeps its time and size, but not its place.
void add_file(std::vector<std::string>& lines, const path& file, const path& shown) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  lines.push_back(fmt::format("{} {} {}.{:09} {}:{}\n", shown.string(), status.st_size, status.st_mtim.tv_sec,
                              status.st_mtim.tv_nsec, status.st_dev, status.st_ino));
}

// Of a folder also those of its folders (1_Pooling), but no deeper; of a GGUF file its other parts, too.
void add_files(std::vector<std::string>& lines, const path& given) {
  std::error_code ignored;
  if (std::filesystem::is_directory(given, ignored)) {
    for (const auto& entry : std::filesystem::directory_iterator(given, ignored)) {
      const path name = entry.path().filename();
      add_file(lines, entry.path(), name);
      if (!entry.is_directory(ignored)) continue;
      for (const auto& inner : std::filesystem::directory_iterator(entry.path(), ignored))
        add_file(lines, inner.path(), name / inner.path().filename());
    }
    return;
  }
  const std::string name = given.filename().string();
  const std::size_t part = name.rfind("-00001-of-");
  if (part == name.npos) return add_file(lines, given, name);
  for (const auto& entry : std::filesystem::directory_iterator(given.parent_path(), ignored)) {
    const path other = entry.path().filename();
    if (other.string().starts_with(name.substr(0, part))) add_file(lines, entry.path(), other);
  }
}

}  // namespace

std::string state_of_files(const ModelSource& source) {
  LocatedModel located = locate_model(source.path);
  for (const NamedAdapter& adapter : source.options.adapters)
    located.adapters.push_back(find_adapter(adapter.name));
  std::string state;
  const auto add = [&](const path& directory) {
    std::vector<std::string> lines;
    add_files(lines, std::filesystem::absolute(directory));
    std::sort(lines.begin(), lines.end());
    for (const std::string& line : lines) state += line;
  };
  add(located.directory);
  for (const AdapterSource& adapter : located.adapters) add(adapter.directory);
  return state;
}

ServedModels ModelSources::open(const Tell& tell) const {
  ServedModels all;
  std::vector<ServedModel*> offered;
  std::vector<std::pair<std::string, Error>> failures;
  for (const ModelSource& source : models) {
    try {
      auto model = opened(source);
      offered.push_back(model.get());
      all.push_back(std::move(model));
    } catch (const Error& error) {
      failures.emplace_back(source.name, error);
    }
  }
  if (all.empty() && !failures.empty()) throw failures.front().second;
  for (const auto& [name, error] : failures) tell(name, error.what());
  for (const auto& [name, file] : steering) {
    try {
      offer_steering(offered, name, file);
    } catch (const Error&) {
      if (failures.empty()) throw;  // else they may be for a model that is left out
    }
  }
  return all;
}

ServedModels ModelSources::open_changed(const ServedModels& now, const Tell& tell) const {
  ServedModels all;
  for (const ModelSource& source : models) {
    const auto old = std::ranges::find(now, source.name, &ServedModel::name);
    const bool is_served = old != now.end();
    try {
      if (is_served && state_of_files(source) == (*old)->files) {
        all.push_back(*old);
        continue;
      }
      const std::shared_ptr<ServedModel> model = opened(source);
      for (const auto& [name, file] : steering) {
        if (is_served && !(*old)->steering.contains(name)) continue;
        try {
          offer_steering({model.get()}, name, file);
        } catch (const Error&) {
          if (is_served) throw;  // else they may be for another
        }
      }
      all.push_back(model);
      tell(source.name, "");
    } catch (const std::exception& error) {
      if (is_served) all.push_back(*old);
      tell(source.name, error.what());
    }
  }
  return all;
}

}  // namespace heed::serve
