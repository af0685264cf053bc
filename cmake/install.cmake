# What `cmake --install` puts under a prefix: the library with its headers, for CMake (find_package(heed))
# and for pkg-config, and the command with its models, recipes, pages, examples and shell completion.
include(CMakePackageConfigHelpers)

set_target_properties(heed PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_compile_features(heed PUBLIC cxx_std_20)
add_library(heed::heed ALIAS heed)

# Components, which become packages (cmake/packages.cmake): library, development and command.
install(TARGETS heed EXPORT heedTargets
        LIBRARY COMPONENT library NAMELINK_COMPONENT development
        ARCHIVE COMPONENT development)
install(DIRECTORY include/heed DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")

# CMake package
set(HEED_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/heed)
install(EXPORT heedTargets NAMESPACE heed:: DESTINATION ${HEED_CMAKE_DIR} COMPONENT development)
if(BUILD_SHARED_LIBS)
  set(HEED_IS_SHARED TRUE)
else()
  set(HEED_IS_SHARED FALSE)
endif()
configure_package_config_file(cmake/heedConfig.cmake.in ${PROJECT_BINARY_DIR}/heedConfig.cmake
                              INSTALL_DESTINATION ${HEED_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heedConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heedConfig.cmake ${PROJECT_BINARY_DIR}/heedConfigVersion.cmake
        DESTINATION ${HEED_CMAKE_DIR} COMPONENT development)

# pkg-config: a static libheed needs its dependencies named, a shared one carries them. The prefix is
# found from the place of the file, so that `cmake --install --prefix` and moved trees work.
file(RELATIVE_PATH HEED_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
if(BUILD_SHARED_LIBS)
  set(HEED_PC_REQUIRES "")
  set(HEED_PC_LIBS "")
else()
  string(REGEX REPLACE "[a-z0-9_]+=" "" HEED_PC_REQUIRES "${HEED_PKG_CONFIG_MODULES};fmt")
  list(JOIN HEED_PC_REQUIRES " " HEED_PC_REQUIRES)
  set(HEED_PC_LIBS "-pthread -lgif")
endif()
configure_file(cmake/heed.pc.in ${PROJECT_BINARY_DIR}/heed.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/heed.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# The command
if(TARGET heed_command)
  install(TARGETS heed_command COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/heed.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME heed COMPONENT command)
  install(FILES ${PROJECT_BINARY_DIR}/_heed DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
  install(FILES docs/man/heed.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
  install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/heed/models COMPONENT command OPTIONAL)
  install(DIRECTORY recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/heed/recipes COMPONENT command)
endif()
# The pages, with all that they link to.
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command OPTIONAL)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT command PATTERN man EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
install(DIRECTORY models DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command OPTIONAL FILES_MATCHING PATTERN README.md)
