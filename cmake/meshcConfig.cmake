# find_package(meshc) defines the target meshc::meshc, the shared library.
include("${CMAKE_CURRENT_LIST_DIR}/meshcTargets.cmake")
