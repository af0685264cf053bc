# The HTML pages are kept as files, for whoever edits them, and compiled in. What the pages of heed attend and heed
# explore share is listed here, in the order in which it is put together.
set(HEED_PAGE ${CMAKE_CURRENT_LIST_DIR})
set(HEED_PAGE_SCRIPTS ${HEED_PAGE}/draw.js ${HEED_PAGE}/help.js ${HEED_PAGE}/data.js ${HEED_PAGE}/state.js ${HEED_PAGE}/matrix.js
                      ${HEED_PAGE}/lines.js ${HEED_PAGE}/neurons.js ${HEED_PAGE}/picture.js ${HEED_PAGE}/figure.js
                      ${HEED_PAGE}/panel.js ${HEED_PAGE}/overview.js ${HEED_PAGE}/viewer.js)

# Sets VARIABLE to the contents of files, one after the other.
function(heed_page_text VARIABLE)
  set(text "")
  foreach(file ${ARGN})
    file(READ ${file} part)
    string(APPEND text "${part}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  set(${VARIABLE} "${text}" PARENT_SCOPE)
endfunction()

# Sets VARIABLE to a page, with the viewer of maps in place of @VIEWER@ and SIDE beside the maps.
function(heed_page_html VARIABLE FILE SIDE)
  heed_page_text(page ${FILE})
  heed_page_text(viewer ${HEED_PAGE}/viewer.html)
  string(REPLACE "@SIDE@" "${SIDE}" viewer "${viewer}")
  string(REPLACE "@VIEWER@" "${viewer}" page "${page}")
  set(${VARIABLE} "${page}" PARENT_SCOPE)
endfunction()

# Sets VARIABLE to the SHA-256 of TEXT in base64: 63 of its 64 hexadecimal digits are 42 characters, the last is one.
function(heed_base64_sha256 VARIABLE TEXT)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 digest "${TEXT}")
  set(base64 "")
  foreach(at RANGE 0 60 3)
    string(SUBSTRING ${digest} ${at} 3 digits)
    math(EXPR high "0x${digits} >> 6")
    math(EXPR low "0x${digits} & 63")
    string(SUBSTRING ${alphabet} ${high} 1 first)
    string(SUBSTRING ${alphabet} ${low} 1 second)
    string(APPEND base64 "${first}${second}")
  endforeach()
  string(SUBSTRING ${digest} 63 1 digit)
  math(EXPR last "0x${digit} << 2")
  string(SUBSTRING ${alphabet} ${last} 1 first)
  set(${VARIABLE} "${base64}${first}=" PARENT_SCOPE)
endfunction()
