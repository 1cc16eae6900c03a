# Installs into an empty prefix, builds examples/minimal against it as a stranger would, runs it and the installed program.
#   cmake -DBUILD=… -DSOURCE=… -DWORK=… -DCXX=… -DGENERATOR=… [-DCXX_FLAGS=…] -P install_test.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    string(REPLACE ";" " " command "${ARGV}")
    message(FATAL_ERROR "failed (${code}): ${command}\n${output}")
  endif()
  set(last_output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --component octavo --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${SOURCE}/examples/minimal -B ${WORK}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER=${CXX}
    -DCMAKE_PREFIX_PATH=${WORK}/prefix "-DCMAKE_CXX_FLAGS=${CXX_FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
# Away from the source tree, so that only the installed demo model can be found.
unset(ENV{OCTAVO_MODEL})
run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/build/minimal ${WORK}/minimal.png 64 64 2)
run(${CMAKE_COMMAND} -E chdir ${WORK} ${WORK}/prefix/bin/octavo generate --prompt "three orange stars in a row on a blue background" --width 64 --height 64 --steps 2
    --output ${WORK}/program.png)
if(NOT last_output MATCHES "prefix/share/octavo/models/demo")
  message(FATAL_ERROR "the installed program did not draw with the installed demo model:\n${last_output}")
endif()
# Same request, same bytes, through the library and through the program.
file(SHA256 ${WORK}/minimal.png minimal)
file(SHA256 ${WORK}/program.png program)
if(NOT minimal STREQUAL program)
  message(FATAL_ERROR "minimal.png and program.png differ")
endif()
run(${WORK}/prefix/bin/octavo inspect ${WORK}/minimal.png)
if(NOT last_output MATCHES "three orange stars")
  message(FATAL_ERROR "the picture does not tell its prompt:\n${last_output}")
endif()
file(REMOVE_RECURSE ${WORK})
