// Writes a picture for the shell runners: make_picture KIND WIDTH HEIGHT PATTERN FILE, as
// picture_write of pictures.h. KIND is a name such as png or jpeg-gray.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pictures/pictures.h"

int main(int argc, char **argv) {
  if (argc != 6) {
    fprintf(stderr, "make_picture KIND WIDTH HEIGHT PATTERN FILE\n");
    return 2;
  }
  for (int k = 0; k < PICTURE_KINDS; k++)
    if (strcmp(picture_name((PictureKind)k), argv[1]) == 0)
      return !picture_write((PictureKind)k, atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), argv[5]);
  fprintf(stderr, "no kind of picture is called %s\n", argv[1]);
  return 2;
}
