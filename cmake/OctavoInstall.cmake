# The install tree: program, library, headers, CMake package, demo model.
#   <prefix>/bin/octavo  <prefix>/lib/liboctavo.so  <prefix>/include/octavo/*.h  <prefix>/lib/cmake/octavo  <prefix>/share/octavo/models/demo
#   <prefix>/share/octavo/tuned
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(octavo PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS octavo EXPORT octavoTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT octavo
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS octavo_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT octavo)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/octavo DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT octavo FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/octavo/models COMPONENT octavo)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/data/tuned DESTINATION ${CMAKE_INSTALL_DATADIR}/octavo COMPONENT octavo FILES_MATCHING PATTERN "*.json")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT octavo OPTIONAL)

set(octavo_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/octavo)
install(EXPORT octavoTargets NAMESPACE octavo:: DESTINATION ${octavo_package_dir} COMPONENT octavo)
file(WRITE ${CMAKE_BINARY_DIR}/octavoConfig.cmake "include(\"\${CMAKE_CURRENT_LIST_DIR}/octavoTargets.cmake\")\n")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/octavoConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/octavoConfig.cmake ${CMAKE_BINARY_DIR}/octavoConfigVersion.cmake DESTINATION ${octavo_package_dir} COMPONENT octavo)
