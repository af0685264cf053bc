# Debian packages, by CPack from the components of install.cmake: libheed0 (the shared library), libheed-dev (headers, CMake
# and pkg-config files) and heed (the command, its models, recipes, pages and service). `make deb` builds them.
if(NOT BUILD_SHARED_LIBS)
  return()
endif()

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libheed0 RENAME copyright COMPONENT library)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libheed-dev RENAME copyright COMPONENT development)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/heed RENAME copyright COMPONENT command)
install(FILES packaging/heed.service DESTINATION lib/systemd/system COMPONENT command)
install(FILES packaging/heed.default DESTINATION /etc/default RENAME heed COMPONENT command)
file(WRITE ${CMAKE_BINARY_DIR}/conffiles "/etc/default/heed\n")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_SET_DESTDIR ON)  # /etc is outside the prefix
set(CPACK_COMPONENTS_ALL library development command)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The heed developers <heed@localhost>")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
set(CPACK_STRIP_FILES ON)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libheed0)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "Transformers in C++20: the shared library
 Trains encoders, decoders and encoder-decoders, runs the checkpoints of
 Hugging Face, and shows what every head attends to, on CPUs.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libheed-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libheed0 (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Transformers in C++20: headers of the library
 For find_package(heed) of CMake and for pkg-config.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME heed)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/conffiles)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS "libcurl4, ca-certificates, fonts-dejavu-core")  # heed pull; figures
set(CPACK_DEBIAN_COMMAND_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "Transformers in C++20: train, run and look inside
 The command heed, with small trained models, recipes and pages.")
include(CPack)
