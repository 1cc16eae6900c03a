#include "octavo/version.h"

#define OCTAVO_TEXT_OF(x) #x
#define OCTAVO_TEXT(x) OCTAVO_TEXT_OF(x)

const char* octavo::version() noexcept { return OCTAVO_TEXT(OCTAVO_VERSION_MAJOR) "." OCTAVO_TEXT(OCTAVO_VERSION_MINOR) "." OCTAVO_TEXT(OCTAVO_VERSION_PATCH); }
