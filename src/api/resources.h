// Finds what was installed with the library.
#pragma once

#include <filesystem>

#include "octavo/version.h"

namespace octavo {

// The folder of the demo model: $OCTAVO_MODEL; else share/octavo/models/demo beside the folder of the library or program; else models/demo of
// the source tree that one of them lies in; else ./models/demo. Throws InvalidArgument, naming the places, if it is nowhere.
OCTAVO_API std::filesystem::path default_model();

}  // namespace octavo
