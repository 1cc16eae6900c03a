// The version of the library, as three integers and as text.
#pragma once

#define OCTAVO_VERSION_MAJOR 0
#define OCTAVO_VERSION_MINOR 1
#define OCTAVO_VERSION_PATCH 0

// Marks what liboctavo.so shows; everything else in it is hidden.
#define OCTAVO_API __attribute__((visibility("default")))

namespace octavo {

// "0.1.0"; the same text is written into every picture's metadata.
OCTAVO_API const char* version() noexcept;

}  // namespace octavo
