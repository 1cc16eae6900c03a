# One target per room. The link graph repeats the layer rule that tools/check_layers.py reads from the includes.
#   octavo_room(<name> SOURCES a.cpp … [CUDA_SOURCES b.cu …] [DEPS room …] [LIBS target …])
# CUDA_SOURCES (and *_cuda.cpp files) are left out when the build has no CUDA.

add_library(octavo_flags INTERFACE)
target_include_directories(octavo_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include ${CMAKE_BINARY_DIR}/generated)
# numerics.md section 1: every float step is one IEEE operation; contraction into FMA is written out where it is wanted.
target_compile_options(octavo_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -ffp-contract=off>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${OCTAVO_WERROR}>>:-Werror>
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<BOOL:${OCTAVO_WERROR}>>:-Wno-error=maybe-uninitialized> # g++ 12 sees it in std containers that it inlined
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false -Xptxas=-v --resource-usage -Xfatbin=-compress-all>
  $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)
if(OCTAVO_SANITIZE)
  target_compile_options(octavo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined>)
  target_link_options(octavo_flags INTERFACE -fsanitize=address,undefined)
endif()
if(OCTAVO_FUZZ)
  target_compile_options(octavo_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
target_link_libraries(octavo_flags INTERFACE fmt::fmt Threads::Threads)

function(octavo_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;CUDA_SOURCES;DEPS;LIBS" ${ARGN})
  set(sources ${ROOM_SOURCES})
  if(OCTAVO_HAS_CUDA)
    list(APPEND sources ${ROOM_CUDA_SOURCES})
  endif()
  list(TRANSFORM ROOM_DEPS PREPEND octavo_)
  if(sources)
    add_library(octavo_${name} STATIC ${sources})
    target_link_libraries(octavo_${name} PUBLIC octavo_flags ${ROOM_DEPS} ${ROOM_LIBS})
    if(OCTAVO_HAS_CUDA)
      target_link_libraries(octavo_${name} PUBLIC CUDA::cudart_static)
      target_include_directories(octavo_${name} PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    endif()
  else()
    add_library(octavo_${name} INTERFACE)
    target_link_libraries(octavo_${name} INTERFACE octavo_flags ${ROOM_DEPS} ${ROOM_LIBS})
  endif()
endfunction()

#   octavo_test(<name> SOURCES … DEPS room … [LABELS …] [TIMEOUT s] [FIXTURES ctest fixture …])    one GoogleTest program
function(octavo_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT" "SOURCES;DEPS;LIBS;LABELS;FIXTURES" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 600)
  endif()
  set(fixtures)
  if(TEST_FIXTURES)
    set(fixtures FIXTURES_REQUIRED ${TEST_FIXTURES})
  endif()
  list(TRANSFORM TEST_DEPS PREPEND octavo_)
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE octavo_flags ${TEST_DEPS} ${TEST_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_compile_definitions(${name} PRIVATE OCTAVO_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  gtest_discover_tests(${name} TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 120 PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABELS}" ${fixtures})
endfunction()
