# The install tree: program, library, headers, CMake package, demo model.
