// Unicode normalisation form C.
#pragma once

#include <string>
#include <string_view>

namespace octavo {

// The canonical composition of valid UTF-8, by the tables of utf8proc (Unicode 14 in 2.8). Tokenizers with older tables leave a few rare marks
// in another order; text of assigned characters has one NFC for ever, so the newer table is the right one. Time is n log n in the longest run of combining
// marks, whatever the text.
std::string to_nfc(std::string_view text);

}  // namespace octavo
