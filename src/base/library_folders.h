// Where libraries lie beside bin/, in a build folder or an installation. Whoever includes this is compiled
// with LONGSHORE_LIBRARY_FOLDER (what was configured, CMAKE_INSTALL_LIBDIR) and LONGSHORE_ARCHITECTURE_FOLDER
// ("lib/" and the system's name for this architecture).
#pragma once

namespace longshore {

// In the order of the search. More than the configured one: packagers move trees, and a build folder has
// "lib".
inline constexpr const char* kLibraryFolders[] = {LONGSHORE_LIBRARY_FOLDER, "lib", "lib64",
                                                  LONGSHORE_ARCHITECTURE_FOLDER};

}  // namespace longshore
