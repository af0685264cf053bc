# Everything heed stands on, all of it packaged by Debian (scripts/install-deps.sh installs it).
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
# Headers only: the command loads libcurl when it downloads, and libheed never does.
find_package(CURL 7.85 REQUIRED)
add_library(heed_curl_headers INTERFACE)
target_include_directories(heed_curl_headers SYSTEM INTERFACE ${CURL_INCLUDE_DIRS})
# The digests of downloads. Not in libheed, so not among the modules below.
pkg_check_modules(nettle REQUIRED IMPORTED_TARGET nettle)
# The lines of heed chat in a terminal. The command alone is linked with it.
pkg_check_modules(edit REQUIRED IMPORTED_TARGET libedit)
# Optional: without it, heed runs as one process. The command alone is linked with it.
if(HEED_MPI)
  find_package(MPI COMPONENTS CXX QUIET)
endif()
if(HEED_MPI AND MPI_CXX_FOUND)
  set(HEED_WITH_MPI ON)
else()
  set(HEED_WITH_MPI OFF)
endif()
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GIF 5 REQUIRED)  # giflib comes without a file for pkg-config
find_path(HEED_KISSFFT_INCLUDE kissfft/kissfft.hh REQUIRED)  # headers only: the Fourier transform of sound
find_path(HEED_EIGEN_INCLUDE eigen3/Eigen/Core REQUIRED)  # headers only: the Cholesky factors of GPTQ
mark_as_advanced(HEED_KISSFFT_INCLUDE HEED_EIGEN_INCLUDE)
find_package(Boost 1.74 REQUIRED)  # headers only: Beast, the HTTP of heed explore

# What pkg-config describes: NAME=MODULE becomes PkgConfig::NAME, here and where heed is installed.
set(HEED_PKG_CONFIG_MODULES
    hwy=libhwy sentencepiece=sentencepiece icu=icu-i18n tomlplusplus=tomlplusplus png=libpng zlib=zlib
    freetype=freetype2 fontconfig=fontconfig jpeg=libjpeg webp=libwebp webpdemux=libwebpdemux
    sndfile=sndfile mpg123=libmpg123 soxr=soxr)
if(HEED_CAIRO)
  list(APPEND HEED_PKG_CONFIG_MODULES cairo=cairo-ft)
endif()
foreach(entry ${HEED_PKG_CONFIG_MODULES})
  string(REPLACE "=" ";" entry ${entry})
  list(GET entry 0 name)
  list(GET entry 1 module)
  pkg_check_modules(${name} REQUIRED IMPORTED_TARGET ${module})
endforeach()

# Header-only libraries are used while heed is built; who links heed need not have them.
set(HEED_HEADER_ONLY nlohmann_json::nlohmann_json CLI11::CLI11)
