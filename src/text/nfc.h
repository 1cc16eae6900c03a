// Unicode normalisation form C.
#pragma once

#include <string>
#include <string_view>

namespace octavo {

// The canonical composition of valid UTF-8. Time is n log n in the longest run of combining marks, whatever the text.
std::string to_nfc(std::string_view text);

}  // namespace octavo
