// Runs a fuzz target without libFuzzer: every seed as it is, then ROUNDS mutations of seeds from a fixed random sequence.
//   fuzz_<target> CORPUS_FOLDER|FILE [ROUNDS]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::string_view kSigns = "{}[]\",:\\0-9 \n\xff<|>eE+.";

// A heap block of exactly the input's size, so that AddressSanitizer sees one byte too many.
void run(const Bytes& input) {
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

Bytes mutated(const std::vector<Bytes>& seeds, std::mt19937& random) {
  const auto below = [&](std::size_t bound) { return bound == 0 ? 0 : std::size_t(random()) % bound; };
  Bytes bytes = seeds[below(seeds.size())];
  for (std::size_t change = 0, changes = 1 + below(6); change < changes; ++change) {
    const std::size_t at = below(bytes.size() + 1);
    const std::size_t length = std::min(bytes.size() - at, 1 + below(8));
    const auto first = bytes.begin() + std::ptrdiff_t(at);
    switch (below(7)) {
      case 0:  // a bit
        if (at < bytes.size()) bytes[at] ^= std::uint8_t(1u << below(8));
        break;
      case 1:  // a byte
        if (at < bytes.size()) bytes[at] = std::uint8_t(random());
        break;
      case 2:  // a sign that matters to the formats
        bytes.insert(first, std::uint8_t(kSigns[below(kSigns.size())]));
        break;
      case 3:
        bytes.erase(first, first + std::ptrdiff_t(length));
        break;
      case 4: {  // a part twice
        const Bytes part(first, first + std::ptrdiff_t(length));
        bytes.insert(first, part.begin(), part.end());
        break;
      }
      case 5: {  // a part of another seed
        const Bytes& other = seeds[below(seeds.size())];
        const std::size_t from = below(other.size() + 1), count = std::min(other.size() - from, 1 + below(32));
        bytes.insert(first, other.begin() + std::ptrdiff_t(from), other.begin() + std::ptrdiff_t(from + count));
        break;
      }
      default:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER|FILE [ROUNDS]\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  if (std::filesystem::is_directory(argv[1])) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
  } else {
    paths.emplace_back(argv[1]);
  }
  std::sort(paths.begin(), paths.end());  // the folder's own order differs between machines
  std::vector<Bytes> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    run(seeds.back());
  }
  if (seeds.empty()) {
    std::fprintf(stderr, "no seeds in %s\n", argv[1]);
    return 2;
  }
  run({});
  const long rounds = argc > 2 ? std::atol(argv[2]) : 0;
  std::mt19937 random(20261130);
  for (long round = 0; round < rounds; ++round) {
    const Bytes input = mutated(seeds, random);
    if (std::getenv("OCTAVO_FUZZ_KEEP") != nullptr) {  // a path: the last input, to look at after a crash
      std::ofstream(std::getenv("OCTAVO_FUZZ_KEEP"), std::ios::binary).write(reinterpret_cast<const char*>(input.data()), std::streamsize(input.size()));
    }
    run(input);
  }
  std::printf("%zu seeds, %ld mutations\n", seeds.size(), rounds);
  return 0;
}
