#include "quant/formats/gguf_blocks.h"

#include <cstring>

#include "tensor/dtype.h"

namespace octavo {
namespace {

float read_f16(const std::byte* from) {
  f16 value;
  std::memcpy(&value.bits, from, sizeof(value.bits));
  return to_float(value);
}

const std::uint8_t* unsigned_bytes(const std::byte* from) { return reinterpret_cast<const std::uint8_t*>(from); }

struct SubBlock {
  float scale, minimum;
};

SubBlock unpack_q4_k(const std::uint8_t* p, int j) {
  if (j < 4) return {float(p[j] & 63), float(p[j + 4] & 63)};
  return {float((p[j + 4] & 15) | ((p[j - 4] >> 6) << 4)), float((p[j + 4] >> 4) | ((p[j] >> 6) << 4))};
}

}  // namespace

void decode_q8_0(const std::byte* blocks, std::int64_t count, float* w) {
  for (std::int64_t i = 0; i < count; i += kQ8_0Block, blocks += kQ8_0Bytes, w += kQ8_0Block) {
    const float d = read_f16(blocks);
    const auto* q = reinterpret_cast<const std::int8_t*>(blocks + 2);
    for (int k = 0; k < kQ8_0Block; ++k) w[k] = d * float(q[k]);
  }
}

void decode_q4_0(const std::byte* blocks, std::int64_t count, float* w) {
  for (std::int64_t i = 0; i < count; i += kQ4_0Block, blocks += kQ4_0Bytes, w += kQ4_0Block) {
    const float d = read_f16(blocks);
    const std::uint8_t* q = unsigned_bytes(blocks + 2);
    for (int k = 0; k < 16; ++k) {
      w[k] = d * float((q[k] & 15) - 8);
      w[k + 16] = d * float((q[k] >> 4) - 8);
    }
  }
}

void decode_q4_k(const std::byte* blocks, std::int64_t count, float* w) {
  for (std::int64_t i = 0; i < count; i += kQ4_KBlock, blocks += kQ4_KBytes, w += kQ4_KBlock) {
    const float d = read_f16(blocks);
    const float dmin = read_f16(blocks + 2);
    const std::uint8_t* packed = unsigned_bytes(blocks + 4);
    const std::uint8_t* nibbles = unsigned_bytes(blocks + 16);
    for (int j = 0; j < 8; ++j) {
      const SubBlock sub = unpack_q4_k(packed, j);
      const float scale = d * sub.scale;
      const float minimum = dmin * sub.minimum;
      const std::uint8_t* q = nibbles + 32 * (j / 2);
      for (int k = 0; k < 32; ++k) {
        const int code = j % 2 == 0 ? q[k] & 15 : q[k] >> 4;
        w[32 * j + k] = scale * float(code) - minimum;
      }
    }
  }
}

}  // namespace octavo
