# Toolchain for a cross build on Debian: cmake -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake. Programs are run by qemu's user mode, on the CPU that
# QEMU_CPU names (default: one with everything).
# OMMA_AARCH64_ROOT is a folder with the packages for arm64 that the program needs (tools/aarch64_root.sh makes one); without it, the
# cross compiler's own libraries are enough for OMMA_ATTENTION_ONLY=ON.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES OMMA_AARCH64_ROOT)
if(OMMA_AARCH64_ROOT)
  set(CMAKE_SYSROOT ${OMMA_AARCH64_ROOT})
  set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
  set(OMMA_AARCH64_LIBRARIES ${OMMA_AARCH64_ROOT})
  set(ENV{PKG_CONFIG_SYSROOT_DIR} ${OMMA_AARCH64_ROOT})
  set(ENV{PKG_CONFIG_LIBDIR} ${OMMA_AARCH64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${OMMA_AARCH64_ROOT}/usr/share/pkgconfig)
else()
  set(OMMA_AARCH64_LIBRARIES /usr/aarch64-linux-gnu)
  set(CMAKE_FIND_ROOT_PATH ${OMMA_AARCH64_LIBRARIES})
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${OMMA_AARCH64_LIBRARIES})
