#include "tune/store.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>  // NOLINT: kill is POSIX

#include <cerrno>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "base/log.h"
#include "octavo/error.h"

namespace octavo::tune {
namespace {

namespace fs = std::filesystem;

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path() : fs::path(value);
}

fs::path user_folder() {
  fs::path cache = from_environment("XDG_CACHE_HOME");
  if (!cache.is_absolute()) {  // the specification: a relative one is to be ignored
    const fs::path home = from_environment("HOME");
    cache = home.is_absolute() ? home / ".cache" : fs::path();
  }
  return cache.empty() ? fs::path() : cache / "octavo" / "tuned";
}

fs::path shipped_folder() {
  if (fs::path chosen = from_environment("OCTAVO_TUNED"); !chosen.empty()) return chosen;
  std::error_code failure;
  Dl_info library{};
  fs::path start;
  if (::dladdr(reinterpret_cast<const void*>(&default_places), &library) != 0 && library.dli_fname != nullptr)
    start = fs::canonical(library.dli_fname, failure);
  if (failure || start.empty()) start = fs::read_symlink("/proc/self/exe", failure);
  for (fs::path folder = start.parent_path(); !folder.empty() && folder != folder.parent_path(); folder = folder.parent_path()) {
    for (const char* below : {"share/octavo/tuned", "data/tuned"}) {
      if (fs::is_directory(folder / below, failure)) return folder / below;
    }
  }
  return {};
}

// Temporaries of writers that were killed: "<file>.<pid>.part" whose process is gone.
void remove_leftovers(const fs::path& path) {
  std::error_code failure;
  const std::string prefix = path.filename().string() + ".";
  for (const fs::directory_entry& file : fs::directory_iterator(path.parent_path(), failure)) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(".part")) continue;
    const int pid = std::atoi(name.c_str() + prefix.size());
    if (pid > 0 && ::kill(pid, 0) != 0 && errno == ESRCH) fs::remove(file.path(), failure);
  }
}

void write_file(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace

Places default_places() { return {.shipped = shipped_folder(), .user = user_folder()}; }

Store::Store(GpuKey gpu, Places places) : places_(std::move(places)), own_(gpu), shipped_(std::move(gpu)) {
  if (!places_.shipped.empty()) {
    if (auto table = read(places_.shipped / own_.gpu().file_name())) shipped_ = *std::move(table);
  }
  if (!places_.user.empty()) {
    remove_leftovers(own_path());
    if (auto table = read(own_path())) own_ = *std::move(table);
  }
}

fs::path Store::own_path() const { return places_.user.empty() ? fs::path() : places_.user / own_.gpu().file_name(); }

std::optional<Table> Store::read(const fs::path& path) const {
  std::error_code failure;
  if (!fs::exists(path, failure)) return std::nullopt;
  try {
    Table table = Table::from_json(read_text(path, Table::kMaxFileBytes), fmt::format("'{}'", path.string()));
    if (table.gpu() == own_.gpu()) return table;
    log::warn("tune", "'{}' is ignored: it is for {}, this is {}; run 'octavo tune' to measure again", path.string(), table.gpu().text(), own_.gpu().text());
  } catch (const Error& error) {
    log::warn("tune", "a tuning table is ignored: {}", error.what());
  }
  return std::nullopt;
}

const Entry* Store::find(const ShapeKey& shape) const {
  const Entry* own = own_.find(shape);
  return own != nullptr ? own : shipped_.find(shape);
}

void Store::record(const ShapeKey& shape, Entry entry) {
  own_.put(shape, std::move(entry));
  write_own();
}

void Store::write_own() {
  if (places_.user.empty()) return;  // no home: choices live as long as the process
  std::error_code failure;
  fs::create_directories(places_.user, failure);
  if (failure) {
    throw InvalidArgument(
        fmt::format("tune: folder '{}' cannot be created ({}); set XDG_CACHE_HOME to one that can be written", places_.user.string(), failure.message()));
  }
  if (fs::exists(own_path(), failure)) {
    if (const auto table = read(own_path())) {
      for (const auto& [shape, entry] : table->entries()) {
        if (own_.find(shape) == nullptr) own_.put(shape, entry);
      }
    }
  }
  write_file(own_path(), own_.to_json());
}

void Store::export_to(const fs::path& path) const {
  Table all = shipped_;
  for (const auto& [shape, entry] : own_.entries()) all.put(shape, entry);
  write_file(path, all.to_json());
}

std::size_t Store::import_from(const fs::path& path) {
  const Table table = Table::from_json(read_text(path, Table::kMaxFileBytes), fmt::format("tune: '{}'", path.string()));
  if (!(table.gpu() == own_.gpu())) {
    throw DataError(fmt::format("tune: '{}' was made for {}, this is {}; nothing was imported, 'octavo tune' measures here", path.string(), table.gpu().text(),
                                own_.gpu().text()));
  }
  for (const auto& [shape, entry] : table.entries()) own_.put(shape, entry);
  if (!table.entries().empty()) write_own();
  return table.entries().size();
}

}  // namespace octavo::tune
