# The page of heed explore: the viewer of maps that heed attend's page has, with what asks the server and shows its answers.
include(${PROJECT_SOURCE_DIR}/src/plot/page/page.cmake)
set(folder ${CMAKE_CURRENT_LIST_DIR})
heed_page_text(side ${folder}/side.html)
heed_page_html(EXPLORE_PAGE ${folder}/explore.html "${side}")
heed_page_text(css ${HEED_PAGE}/page.css ${folder}/explore.css ${folder}/looks.css)
heed_page_text(script ${HEED_PAGE_SCRIPTS} ${folder}/predictions.js ${folder}/changes.js ${folder}/steering.js ${folder}/files.js ${folder}/recording.js ${folder}/looks.js
               ${folder}/sampling.js ${folder}/flow.js ${folder}/steps.js ${folder}/why.js ${folder}/traps.js ${folder}/model_lines.js ${folder}/explore.js)
# A page in a file has a policy with these hashes; each begins with the line feed behind its tag.
heed_base64_sha256(EXPLORE_SCRIPT_HASH "\n${script}")
heed_base64_sha256(EXPLORE_STYLE_HASH "\n${css}")
string(REPLACE "@CSS@" "${css}" EXPLORE_PAGE "${EXPLORE_PAGE}")
string(REPLACE "@JS@" "${script}" EXPLORE_PAGE "${EXPLORE_PAGE}")
foreach(mark NONCE POLICY NOTES RECORDING)  # they stay
  set(${mark} "@${mark}@")
endforeach()
configure_file(${folder}/page.h.in explore/page.h @ONLY)
