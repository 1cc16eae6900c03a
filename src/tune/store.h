// Where choices are remembered: tables that ship with the program, and this user's own.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tune/table.h"

namespace octavo::tune {

// Folders to look in; an empty path means there is none.
struct Places {
  std::filesystem::path shipped{};  // read only
  std::filesystem::path user{};     // created when the first choice is written
};

// shipped: $OCTAVO_TUNED; else share/octavo/tuned beside the folder of the library or program, or data/tuned of the source tree it
// lies in. user: $XDG_CACHE_HOME/octavo/tuned, else ~/.cache/octavo/tuned.
Places default_places();

// The choices for one GPU. A file that is damaged, of another version, GPU, driver or kernel set is ignored with one line in the log
// and written anew by the next record(). Not for use from several threads at once.
class Store {
 public:
  Store(GpuKey gpu, Places places);

  const GpuKey& gpu() const { return own_.gpu(); }
  // The user's choice, else the shipped one, else null. Valid until the next record() or import_from().
  const Entry* find(const ShapeKey& shape) const;
  bool has_own(const ShapeKey& shape) const { return own_.find(shape) != nullptr; }
  std::size_t own_count() const { return own_.entries().size(); }

  // Remembers a choice and writes the whole table, by renaming a finished file: a reader, or whoever comes after a kill -9, sees the
  // table before or after. Choices that another process wrote meanwhile are kept. Throws InvalidArgument or DataError if it cannot write.
  void record(const ShapeKey& shape, Entry entry);

  // Own and shipped choices in one file. Throws like record().
  void export_to(const std::filesystem::path& path) const;
  // Takes over the choices of a file made on the same model of GPU with the same driver and kernels; the file's win over own ones. Returns how many.
  // Throws DataError if the file is damaged or was made for something else, InvalidArgument if it is missing.
  std::size_t import_from(const std::filesystem::path& path);

  std::filesystem::path own_path() const;

 private:
  std::optional<Table> read(const std::filesystem::path& path) const;  // nothing, with one line logged, if it is unfit
  void write_own();

  Places places_;
  Table own_;
  Table shipped_;
};

}  // namespace octavo::tune
