// Any bytes as a safetensors file: an error of ours, or entries that tile the data.
#include "fuzz/check.h"
#include "io/safetensors.h"
#include "octavo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  std::map<std::string, std::string> metadata;
  std::vector<octavo::SafetensorsEntry> entries;
  try {
    entries = octavo::parse_safetensors_header(bytes, size, "fuzz", &metadata);
  } catch (const octavo::DataError&) {
    return 0;
  } catch (const octavo::Unsupported&) {
    return 0;
  }
  std::uint64_t end = entries.empty() ? size : entries.front().offset;
  for (const octavo::SafetensorsEntry& entry : entries) {
    check(entry.offset == end, "tensors follow each other without gap or overlap");
    end = entry.offset + entry.bytes;
    if (entry.dtype) check(entry.bytes == std::uint64_t(entry.shape.elements()) * octavo::bytes_of(*entry.dtype), "bytes agree with shape and dtype");
  }
  check(end == size, "tensors end where the file ends");
  // The same header before a file of another size must be refused: some byte would be missing or unnamed.
  bool is_refused = false;
  try {
    octavo::parse_safetensors_header(bytes, size + 1, "fuzz", nullptr);
  } catch (const octavo::Error&) {
    is_refused = true;
  }
  check(is_refused, "a trailing byte is noticed");
  return 0;
}
