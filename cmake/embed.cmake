# Makes a C array of a file: cmake -DINPUT=FILE -DOUTPUT=FILE.c -DNAME=SYMBOL -DHEADER=FOLDER/FILE.h -P embed.cmake
# HEADER declares `extern const unsigned char SYMBOL[]` and `extern const size_t SYMBOL_size`. Where FILE has a line
# @OTHER@, the file OTHER of the same folder stands in the array.
# With -DWITHOUT_INDENTATION=ON blanks at the beginning of lines are left out.
file(READ ${INPUT} bytes HEX)
get_filename_component(folder ${INPUT} DIRECTORY)
file(STRINGS ${INPUT} parts REGEX "^@[a-z_.]+@$")
foreach(part ${parts})
  string(HEX "${part}\n" mark)
  string(REPLACE "@" "" part ${part})
  file(READ ${folder}/${part} inner HEX)
  string(REPLACE ${mark} "${inner}" bytes "${bytes}")
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
if(WITHOUT_INDENTATION)
  string(REGEX REPLACE "0x0a,(0x20,)+" "0x0a," bytes "${bytes}")
endif()
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nconst unsigned char ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_size = sizeof ${NAME};\n")
