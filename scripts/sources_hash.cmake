# Writes OUT, a header that defines NAME: the SHA-256 of all FILES (a list with `;`). Entries of the compile cache are
# keyed by it, so that those of another compiler are never used.
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
file(WRITE ${OUT} "#define ${NAME} \"${hash}\"\n")
