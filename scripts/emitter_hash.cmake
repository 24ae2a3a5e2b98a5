# Writes OUT, a header with EMITTER_HASH: the SHA-256 of all FILES (a list with `;`). Objects in the compile cache are
# keyed by it, so that those of another emitter are never run.
set(all "")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  string(APPEND all ${hash})
endforeach()
string(SHA256 hash "${all}")
file(WRITE ${OUT} "#define EMITTER_HASH \"${hash}\"\n")
