// liboctavo.so consists of the rooms' archives. Public functions whose only definition lies below `api` are named here,
// so that the linker takes their objects along.
#include "octavo/image.h"
#include "octavo/version.h"

namespace octavo {

[[gnu::used]] const void* const kTakenAlong[] = {reinterpret_cast<const void*>(&save_png), reinterpret_cast<const void*>(&version)};

}  // namespace octavo
