# A module is an object library, so that a module's tests need only the modules below it; libheed is all of them.

# From src/modules.txt: HEED_LIBRARY_MODULES and HEED_COMMAND_MODULES, and for each module those that it includes.
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/modules.txt)
file(STRINGS ${PROJECT_SOURCE_DIR}/src/modules.txt lines REGEX "^[a-z]")
foreach(line ${lines})
  if(NOT line MATCHES "^([a-z]+) *[|] *([a-z]+) *[|] *([a-z+ ]*)[|]")
    message(FATAL_ERROR "src/modules.txt: expected MODULE | BUILT IN | INCLUDES | WHAT IT HOLDS, got ${line}")
  endif()
  set(module ${CMAKE_MATCH_1})
  if(CMAKE_MATCH_2 STREQUAL libheed)
    list(APPEND HEED_LIBRARY_MODULES ${module})
  elseif(CMAKE_MATCH_2 STREQUAL command)
    list(APPEND HEED_COMMAND_MODULES ${module})
  endif()
  string(REGEX MATCHALL "[a-z]+" below "${CMAKE_MATCH_3}")
  set_property(GLOBAL PROPERTY HEED_${module}_MODULES ${below})
endforeach()

# What most sources include is parsed once for a target, where each source is compiled alone.
set(HEED_COMMON_HEADERS <algorithm> <array> <atomic> <cmath> <cstdint> <cstring> <filesystem> <fstream> <functional> <map>
                        <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <utility> <vector>)

# heed_precompile(TARGET further headers...)
function(heed_precompile target)
  if(HEED_PRECOMPILE AND NOT CMAKE_UNITY_BUILD)
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      target_compile_options(${target} PRIVATE -fpch-preprocess)  # so that ccache can serve another folder
    endif()
    target_precompile_headers(${target} PRIVATE ${HEED_COMMON_HEADERS} ${ARGN})
  endif()
endfunction()

# heed_module(NAME [HOT | COLD] SOURCES files... PRIVATE third-party targets...)
# A release compiles what computes with numbers, HOT, with -O3, other modules with -O2, and with -O1 those that are COLD: the time
# goes into the modules below them, and optimizing them would only take time to compile.
function(heed_module name)
  cmake_parse_arguments(MODULE "HOT;COLD" "" "SOURCES;PRIVATE" ${ARGN})
  set_property(GLOBAL PROPERTY HEED_${name}_PRIVATE ${MODULE_PRIVATE})
  add_library(heed_${name} OBJECT ${MODULE_SOURCES})
  target_include_directories(heed_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(heed_${name} PRIVATE ${MODULE_PRIVATE})
  set(common "")
  if(fmt::fmt IN_LIST MODULE_PRIVATE)
    list(APPEND common <fmt/format.h>)
  endif()
  if(nlohmann_json::nlohmann_json IN_LIST MODULE_PRIVATE)
    list(APPEND common <nlohmann/json.hpp>)
  endif()
  heed_precompile(heed_${name} ${common})
  if(NOT MODULE_HOT)
    target_compile_options(heed_${name} PRIVATE $<$<CONFIG:Release>:-O$<IF:$<BOOL:${MODULE_COLD}>,1,2>>)
  endif()
endfunction()

# All modules that the given ones depend on, including themselves.
function(heed_modules_below out)
  set(todo ${ARGN})
  set(seen "")
  while(todo)
    list(POP_FRONT todo module)
    if(NOT module IN_LIST seen)
      list(APPEND seen ${module})
      get_property(below GLOBAL PROPERTY HEED_${module}_MODULES)
      list(APPEND todo ${below})
    endif()
  endwhile()
  set(${out} ${seen} PARENT_SCOPE)
endfunction()

# heed_assemble(TARGET modules...): puts the modules' objects, and those below them, into TARGET.
function(heed_assemble target)
  heed_modules_below(modules ${ARGN})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:include>
                                       PRIVATE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  foreach(module ${modules})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:heed_${module}>)
    get_property(private GLOBAL PROPERTY HEED_${module}_PRIVATE)
    foreach(library ${private})
      if(library IN_LIST HEED_HEADER_ONLY)
        set(library $<BUILD_INTERFACE:${library}>)
      endif()
      target_link_libraries(${target} PRIVATE ${library})
    endforeach()
  endforeach()
endfunction()
