# Writes OUT, a header with a row {"NAME", "TEXT"} for each machine file of FILES (a list with `;`): NAME is that of the file
# without .txt. So meshc knows these machines wherever it is installed.
set(rows "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n \"" text "${text}")
  string(APPEND rows "{\"${name}\",\n \"${text}\"},\n")
endforeach()
file(WRITE ${OUT} "${rows}")
