// Any bytes as a GGUF file: an error of ours, or tensors that lie inside the file, apart from each other.
#include "fuzz/check.h"
#include "io/gguf.h"
#include "octavo/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using octavo::fuzz::check;
  octavo::GgufMetadata metadata;
  std::vector<octavo::GgufEntry> entries;
  try {
    entries = octavo::parse_gguf_header(std::span(reinterpret_cast<const std::byte*>(data), size), "fuzz", &metadata);
  } catch (const octavo::DataError&) {
    return 0;
  } catch (const octavo::Unsupported&) {
    return 0;
  }
  std::uint64_t end = 0;
  for (const octavo::GgufEntry& entry : entries) {
    check(entry.type != nullptr, "every tensor has a type");
    check(entry.offset >= end, "tensors do not overlap");
    check(entry.offset % 8 == 0, "tensors are aligned");
    check(entry.offset <= size && entry.bytes <= size - entry.offset, "tensors lie inside the file");
    check(std::uint64_t(entry.shape.elements() / entry.type->block * entry.type->block_bytes) == entry.bytes, "bytes agree with shape and type");
    end = entry.offset + entry.bytes;
  }
  return 0;
}
