# The CUDA backend. Its kernels are compiled by nvcc, each .cu file to a fat binary of its own, and embedded
# in the library as bytes; the host side is plain C on the driver API. Without nvcc none.c stands in.
#
#   TOMBOLA_CUDA        ON, OFF, or AUTO (where nvcc is found)
#   TOMBOLA_CUDA_ARCHS  compute capabilities without the dot; N-virtual adds PTX, which drivers compile for
#                       devices newer than all of the list; what was made for 8x runs without clusters and
#                       dependent launches on all. For a quick build name only your device's: 90
#   TOMBOLA_CUDA_FLAGS  more flags for nvcc, such as -lineinfo

# Each .cu file is compiled alone; a kernel is found by its name, whatever file it is in.
file(GLOB cuda_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/modules/*.cu)
set(cuda_modules "")
foreach(file ${cuda_files})
  get_filename_component(name ${file} NAME_WE)
  list(APPEND cuda_modules ${name})
endforeach()

set(TOMBOLA_CUDA_ARCHS "" CACHE STRING "CUDA targets; empty = all that the library supports")
set(TOMBOLA_CUDA_FLAGS "" CACHE STRING "Additional flags for nvcc")
set(cuda_objects "")

# The launch plan is plain C: it is there, and tested, without nvcc too.
if(EXISTS ${PROJECT_SOURCE_DIR}/src/cuda/plan.c)
  list(APPEND sources src/cuda/plan.c src/cuda/plan_fast.c src/cuda/plan_few.c src/cuda/plan_parts.c src/cuda/plan_whole.c src/cuda/parts.c
    src/cuda/variants.c)
endif()

set(cuda_reason "")
if(NOT TOMBOLA_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TOMBOLA_CUDA is ${TOMBOLA_CUDA}; it must be AUTO, ON or OFF")
elseif(TOMBOLA_CUDA STREQUAL "OFF")
  set(cuda_reason "TOMBOLA_CUDA is OFF")
else()
  find_program(TOMBOLA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT TOMBOLA_NVCC)
    set(cuda_reason "nvcc was not found (CUDA_HOME names the toolkit's folder)")
  else()
    execute_process(COMMAND ${TOMBOLA_NVCC} --version OUTPUT_VARIABLE nvcc_text RESULT_VARIABLE nvcc_failed)
    string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" _ "${nvcc_text}")
    set(nvcc_major "${CMAKE_MATCH_1}")
    set(nvcc_minor "${CMAKE_MATCH_2}")
    if(nvcc_failed OR NOT nvcc_major OR nvcc_major LESS 12)
      set(cuda_reason "${TOMBOLA_NVCC} is not an nvcc of CUDA 12 or newer")
    endif()
  endif()
  if(NOT "generic" IN_LIST cuda_modules)
    set(cuda_reason "src/cuda/modules/generic.cu is missing")
  endif()
  if(NOT EXISTS ${PROJECT_SOURCE_DIR}/src/cuda/plan.c)
    set(cuda_reason "src/cuda/plan.c is missing")
  endif()
endif()

if(cuda_reason)
  if(TOMBOLA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "The CUDA backend cannot be built: ${cuda_reason}")
  endif()
  message(STATUS "CUDA backend: left out, the library is CPU-only: ${cuda_reason}")
  list(APPEND sources src/cuda/none.c)
  return() # from this file
endif()

# sm_100 and sm_120 came with CUDA 12.8.
set(archs ${TOMBOLA_CUDA_ARCHS})
if(NOT archs)
  set(archs 80 86 89 90)
  if(nvcc_major GREATER 12 OR nvcc_minor GREATER 7)
    list(APPEND archs 100 120)
  endif()
  list(APPEND archs 90-virtual)
endif()
string(REPLACE ";" " " embed_targets "${archs}")
# The sources tell devices apart by whether they have clusters (__CUDA_ARCH__ >= 900), and by nothing else; and
# nvcc's front half takes half as long as ptxas. So it runs twice, for 80 and for 90, whose PTX is that of all
# later ones: the PTX that tests have run on a device. Its own optimiser for 100 and later ones leaves 5 % fewer
# instructions in the streaming kernels; nothing is known of the time.
# What ptxas makes for 89 is what it makes for 86, instruction for instruction, and runs on both.
# The kernels of the modules *_large need more shared memory than 86, 89 and 12x have, and all but those of
# fast_stream_large_* clusters, which no 8x has.
set(gencode "")
set(gencode_large "")
set(gencode_large_clusters "")
foreach(arch ${archs})
  if(arch STREQUAL "89" AND "86" IN_LIST archs)
    continue()
  endif()
  set(virtual ${arch})
  if(arch MATCHES "^8[0-9]$")
    set(virtual 80)
  elseif(arch MATCHES "^[0-9]+$")
    set(virtual 90)
  endif()
  if(arch MATCHES "^([0-9]+[af]?)-virtual$")
    set(one -gencode arch=compute_${CMAKE_MATCH_1},code=compute_${CMAKE_MATCH_1})
  elseif(arch MATCHES "^[0-9]+[af]?$")
    set(one -gencode arch=compute_${virtual},code=sm_${arch})
  else()
    message(FATAL_ERROR "TOMBOLA_CUDA_ARCHS holds '${arch}'; give numbers such as 90 or 90-virtual")
  endif()
  list(APPEND gencode ${one})
  # 80's image serves any 8x that has the room
  if(NOT arch MATCHES "^12[0-9][af]?$" AND NOT (arch MATCHES "^8[69]$" AND "80" IN_LIST archs))
    list(APPEND gencode_large ${one})
  endif()
  if(NOT arch MATCHES "^8[0-9]|^12[0-9][af]?$")
    list(APPEND gencode_large_clusters ${one})
  endif()
endforeach()

# -fmad=false: the law's operations are fused only where it says so (docs/law.md). No fast math, ever.
separate_arguments(more_flags UNIX_COMMAND "${TOMBOLA_CUDA_FLAGS}")
set(nvcc_flags -std=c++17 -O3 -fmad=false -ftz=false -prec-div=true -prec-sqrt=true
  -Xfatbin=-compress-all --threads 0 -I ${PROJECT_SOURCE_DIR}/include ${more_flags})

set(cuda_folder ${PROJECT_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${cuda_folder})
set(embed_images "")
set(embed_table "")
set(fatbins "")
foreach(file ${cuda_modules})
  set(fatbin ${cuda_folder}/${file}.fatbin)
  set(targets ${gencode})
  set(large false)
  set(clusters false)
  if(file MATCHES "^fast_stream_large_")
    set(targets ${gencode_large})
    set(large true)
  elseif(file MATCHES "_large_")
    set(targets ${gencode_large_clusters})
    set(large true)
    set(clusters true)
  endif()
  if(NOT targets)
    continue()
  endif()
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${TOMBOLA_NVCC} -fatbin ${nvcc_flags} ${targets} -MD -MF ${fatbin}.d -MT ${fatbin}
            -o ${fatbin} ${PROJECT_SOURCE_DIR}/src/cuda/modules/${file}.cu
    DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/modules/${file}.cu
    DEPFILE ${fatbin}.d
    COMMENT "Compiling the kernels of src/cuda/modules/${file}.cu"
    VERBATIM)
  list(APPEND fatbins ${fatbin})
  string(APPEND embed_images "EMBED(${file}, \"${fatbin}\")\n")
  string(APPEND embed_table "    {\"${file}\", tb_cuda_image_${file}, ${large}, ${clusters}},\n")
endforeach()
configure_file(src/cuda/embed.c.in ${cuda_folder}/embed.c @ONLY)
set_source_files_properties(${cuda_folder}/embed.c PROPERTIES
  OBJECT_DEPENDS "${fatbins}" COMPILE_OPTIONS "-I${PROJECT_SOURCE_DIR}/src")

list(APPEND sources src/cuda/cuda.c src/cuda/check.c src/cuda/driver.c ${cuda_folder}/embed.c)
if(nvcc_major GREATER 12)
  # See src/cuda/driver.h.
  set_source_files_properties(src/cuda/driver.c PROPERTIES
    COMPILE_DEFINITIONS TB_CUDA_MINIMUM_VERSION=${nvcc_major}000)
endif()
add_library(tombola_cuda INTERFACE) # says that the library has its kernels
message(STATUS "CUDA backend: nvcc ${nvcc_major}.${nvcc_minor}, targets ${embed_targets}")
