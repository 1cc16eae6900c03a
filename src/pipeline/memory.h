// How much memory a plan needs, and whether the machine has it: asked before the work starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace octavo {

struct MemoryItem {
  std::string what{};
  double bytes = 0;  // a double: sizes that --force lets through may pass 2^63
};

// What an estimate is made of. Sizes of the networks, the request, the sequence.
struct MemoryQuestion {
  double text_tokens = 0, text_hidden = 0, text_intermediate = 0, text_features = 0;
  double image_tokens = 0, channels = 0, hidden = 0, intermediate = 0, layers = 0, head_dim = 0;
  double pixels = 0, decoder_channels = 0;  // of the maps that the decoder holds at once, for every pixel of the picture: decoder_channels_of
  double steps = 0, batch = 0;
  double copied_weights_bytes = 0;  // copies that loading will make
  bool keeps_dump = false;
};

// For widths of the autoencoder's blocks from the picture inwards: two maps of the first width, and the one below them at half the resolution.
double decoder_channels_of(const std::vector<int>& widths);

// Memory beyond the mapped weights, largest first; parts that follow each other are counted once, as the largest of them.
// An estimate from the shapes, meant to be within a factor of 1.5: it decides between "start" and "do not even start".
std::vector<MemoryItem> estimate_memory(const MemoryQuestion& question);

// Bytes that this process could still get: MemAvailable, or what the control group leaves if that is less. Infinity if unknown.
double available_memory();

// Throws OutOfMemory (how much, for what, what is free, what would help) if the sum of `items` is over `available`.
void require_memory(const std::vector<MemoryItem>& items, double available);

}  // namespace octavo
