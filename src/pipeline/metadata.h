// The request inside the picture: enough to draw it again.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "octavo/request.h"

namespace octavo {

// What a picture came from, besides the request. Thread count, batch and paths of outputs are left out: they do not change a byte.
struct Origin {
  std::string model{};  // as the user gave it; empty: the demo model
  std::string precision{};
  std::string device{};   // "cpu", "cuda"
  std::string gpu{};      // the GPU's name; empty on the CPU
  std::string kernels{};  // which bodies ran, "avx512", "reference" or "sm_90, cuBLASLt": float results are a fixed function of them (numerics.md section 8)
  bool cpu_reference = false;
  std::string attention{};  // "int8" where the denoisers' attention ran on codes (numerics.md section 12), "bf16" where floats were asked for, else empty
};

inline constexpr const char* kRequestKey = "octavo";     // text chunk with the request as one JSON object
inline constexpr const char* kSoftwareKey = "Software";  // text chunk registered by the PNG specification

// The request of one picture (batch 1, its own seed) as compact JSON. `resolved` has every field set.
std::string request_json(const Request& resolved, const Origin& origin, std::uint64_t seed);
std::map<std::string, std::string> picture_metadata(const Request& resolved, const Origin& origin, std::uint64_t seed);

// The command that repeats it, with shell quoting. Throws DataError if the text is not such an object.
std::string command_from_request_json(const std::string& json);

}  // namespace octavo
