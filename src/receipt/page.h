// The receipt as a file for people and as a file for programs. Same receipt, same bytes.
#pragma once

#include <string>

#include "receipt/receipt.h"

namespace octavo {

inline constexpr int kDifferenceFactor = 8;  // of the pictures that show the difference

// One HTML document with everything inside: no other file, no network, readable without scripts (they only sort).
std::string receipt_page(const Receipt& receipt);

// The same facts without the pictures.
std::string receipt_json(const Receipt& receipt);

}  // namespace octavo
