# find_package(meshc) defines the targets meshc::meshc, the shared library, and meshc::meshc_run, which runs packages.
include("${CMAKE_CURRENT_LIST_DIR}/meshcTargets.cmake")
