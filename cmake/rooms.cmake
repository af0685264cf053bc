# A room is an object library, so that a room's tests need only the rooms below it; libheed is all of them.

# heed_room(NAME SOURCES files... ROOMS rooms below... PRIVATE third-party targets...)
function(heed_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;ROOMS;PRIVATE" ${ARGN})
  set_property(GLOBAL PROPERTY HEED_${name}_ROOMS ${ROOM_ROOMS})
  set_property(GLOBAL PROPERTY HEED_${name}_PRIVATE ${ROOM_PRIVATE})
  add_library(heed_${name} OBJECT ${ROOM_SOURCES})
  target_include_directories(heed_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(heed_${name} PRIVATE ${ROOM_PRIVATE})
endfunction()

# All rooms that the given ones stand on, themselves included.
function(heed_rooms_below out)
  set(todo ${ARGN})
  set(seen "")
  while(todo)
    list(POP_FRONT todo room)
    if(NOT room IN_LIST seen)
      list(APPEND seen ${room})
      get_property(below GLOBAL PROPERTY HEED_${room}_ROOMS)
      list(APPEND todo ${below})
    endif()
  endwhile()
  set(${out} ${seen} PARENT_SCOPE)
endfunction()

# heed_assemble(TARGET rooms...): puts the rooms' objects, and those below them, into TARGET.
function(heed_assemble target)
  heed_rooms_below(rooms ${ARGN})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                              $<INSTALL_INTERFACE:include>
                                       PRIVATE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  foreach(room ${rooms})
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:heed_${room}>)
    get_property(private GLOBAL PROPERTY HEED_${room}_PRIVATE)
    foreach(library ${private})
      if(library IN_LIST HEED_HEADER_ONLY)
        set(library $<BUILD_INTERFACE:${library}>)
      endif()
      target_link_libraries(${target} PRIVATE ${library})
    endforeach()
  endforeach()
endfunction()
