#include "api/describe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/nearest_names.h"
#include "io/json.h"
#include "io/png.h"
#include "octavo/error.h"
#include "pipeline/inventory.h"
#include "pipeline/metadata.h"
#include "pipeline/model_index.h"
#include "text/caption.h"
#include "text/tokenizer.h"

namespace octavo {
namespace {

constexpr std::size_t kMaxTextBytes = 16u << 20;  // 2,048 tokens are some 10 KB; this is the guard against "--prompt-file movie.mp4"

// To the end, whatever length the system gives: files of /proc have none.
std::string read_all(int fd, const std::string& who) {
  std::string text;
  char chunk[65536];
  for (;;) {
    const ssize_t count = ::read(fd, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InvalidArgument(fmt::format("{} cannot be read ({})", who, std::strerror(errno)));
    if (count == 0) return text;
    text.append(chunk, std::size_t(count));
    if (text.size() > kMaxTextBytes) throw InvalidArgument(fmt::format("{} has more than {} bytes; that is no text for a prompt", who, kMaxTextBytes));
  }
}

}  // namespace

std::string read_text_argument(const std::string& path, std::string_view option) {
  if (path == "-") return read_all(STDIN_FILENO, fmt::format("{} -: standard input", option));
  const std::string who = fmt::format("{}: file '{}'", option, path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe that nobody writes to would be waited for
  if (fd < 0) throw InvalidArgument(fmt::format("{} cannot be opened ({}); check the path and its permissions", who, std::strerror(errno)));
  try {
    struct stat status{};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
      throw InvalidArgument(fmt::format("{} is not a regular file; give one, or '-' for standard input", who));
    }
    std::string text = read_all(fd, who);
    ::close(fd);
    return text;
  } catch (...) {
    ::close(fd);
    throw;
  }
}

std::string check_output_path(const std::string& path, std::string_view option) {
  namespace fs = std::filesystem;
  std::error_code failure;
  if (path.empty()) throw InvalidArgument(fmt::format("{}: the path is empty; give one like picture.png", option));
  fs::path target = path;
  const bool exists = fs::exists(target, failure);
  if (failure) throw InvalidArgument(fmt::format("{} '{}': {}; give another path", option, path, failure.message()));  // a link that leads to itself
  if (exists) {
    // Replacing a device or a pipe by a file would be no favour.
    if (!fs::is_regular_file(target, failure) && !fs::is_directory(target, failure)) {
      throw InvalidArgument(fmt::format("{} '{}': is not a regular file; give the name of one", option, path));
    }
    if (fs::is_symlink(target, failure)) target = fs::canonical(target, failure);  // the file is replaced, the link stays
  }
  try {
    const AtomicFile probe(target);
  } catch (const Error& error) {
    throw InvalidArgument(fmt::format("{}: {}", option, error.what()));
  }
  return target.string();
}

void check_not_of_model(const std::string& path, const std::string& model, std::string_view option) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const auto refuse = [&](const fs::path& part) {
    throw InvalidArgument(fmt::format("{} '{}': would be written over or into the model's own '{}'; choose another path", option, path, part.string()));
  };
  const fs::path folder = fs::absolute(path, failure).parent_path(), index = fs::path(model) / "model_index.json";
  if (fs::equivalent(path, index, failure)) refuse(index);
  std::vector<std::string_view> parts(kComponents.begin(), kComponents.end());
  parts.push_back(kOverlay);
  for (const std::string_view part : parts) {
    const fs::path component = fs::path(model) / part;
    if (fs::equivalent(folder, component, failure)) refuse(component);
    if (!fs::exists(path, failure)) continue;
    // What lies in the component's folder may be a link to a file elsewhere.
    for (fs::directory_iterator entry(component, failure), end; entry != end; entry.increment(failure)) {
      if (fs::equivalent(path, entry->path(), failure)) refuse(entry->path());
    }
  }
}

std::string describe_caption(const std::string& text, const std::string& name, Format format) {
  const std::size_t bad = first_invalid_byte(text);
  if (bad != std::string::npos) throw InvalidArgument(fmt::format("caption '{}': invalid UTF-8 or NUL at byte {}; save it as UTF-8 text", name, bad));
  const std::vector<std::string> warnings = check_caption(text);
  if (format == Format::json) return Json{{"caption", name}, {"warnings", warnings}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string lines;
  for (const std::string& warning : warnings) lines += fmt::format("{}: warning: {}\n", name, warning);
  return warnings.empty() ? fmt::format("{}: nothing to complain about\n", name) : lines;
}

std::string compact_caption_text(const std::string& text) { return compact_caption(text); }

std::string describe_pictures(const std::vector<DrawnPicture>& pictures, double seconds, std::int64_t peak_memory_bytes, const std::string& dump_path) {
  Json list = Json::array();
  for (const DrawnPicture& picture : pictures) {
    Json entry{{"path", picture.path}, {"seed", picture.image.seed}, {"width", picture.image.width}, {"height", picture.image.height}};
    const auto request = picture.image.metadata.find(kRequestKey);
    if (request != picture.image.metadata.end()) entry["request"] = parse_json(request->second, "request");
    list.push_back(std::move(entry));
  }
  Json result{{"pictures", list}, {"seconds", seconds}, {"peak_memory_bytes", peak_memory_bytes}};
  if (!dump_path.empty()) result["dump"] = dump_path;
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string nearest_option(const std::string& word, const std::vector<std::string>& options) { return nearest_names(word, options, 1).front(); }

std::string png_bytes(const Image& image) {
  const std::vector<std::byte> bytes = encode_png(image);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace octavo
