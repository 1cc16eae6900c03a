#include "api/resources.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "octavo/error.h"

namespace octavo {
namespace {

namespace fs = std::filesystem;

// The folders that the running program and this library lie in.
std::vector<fs::path> own_folders() {
  std::vector<fs::path> folders;
  std::error_code failure;
  Dl_info library{};
  if (::dladdr(reinterpret_cast<const void*>(&default_model), &library) != 0 && library.dli_fname != nullptr) {
    const fs::path path = fs::canonical(library.dli_fname, failure);
    if (!failure) folders.push_back(path.parent_path());
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (!failure) folders.push_back(program.parent_path());
  return folders;
}

bool is_model(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "model_index.json", ignored);
}

}  // namespace

fs::path default_model() {
  if (const char* chosen = std::getenv("OCTAVO_MODEL"); chosen != nullptr && *chosen != 0) return chosen;  // a wrong one is reported by its reader
  const fs::path in_prefix = fs::path("share") / "octavo" / "models" / "demo";
  const fs::path in_source = fs::path("models") / "demo";
  std::vector<std::string> looked_in;
  const auto folders = own_folders();
  for (const fs::path& folder : folders) {
    const fs::path candidate = folder.parent_path() / in_prefix;  // <prefix>/bin/octavo, <prefix>/lib/liboctavo.so
    if (is_model(candidate)) return candidate;
    looked_in.push_back(candidate.string());
  }
  for (const fs::path& start : folders) {
    for (fs::path folder = start; folder != folder.parent_path(); folder = folder.parent_path()) {
      if (is_model(folder / in_prefix)) return folder / in_prefix;  // a multiarch libdir lies one deeper
      if (is_model(folder / in_source)) return folder / in_source;
    }
  }
  if (is_model(in_source)) return in_source;
  looked_in.push_back(in_source.string());
  throw InvalidArgument(
      fmt::format("model: none was given and the demo model was not found (looked in {}); give --model DIR or set OCTAVO_MODEL", fmt::join(looked_in, ", ")));
}

}  // namespace octavo
