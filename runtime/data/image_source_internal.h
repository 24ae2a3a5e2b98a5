// Sources of images and of their labels: the files that a path stands for (image_files.c), and
// their pixels (source_images.c).
#ifndef RUNTIME_IMAGE_SOURCE_H
#define RUNTIME_IMAGE_SOURCE_H

#include "runtime/data/row_pool.h"
#include "runtime/data/source_internal.h"
#include "runtime/images/image.h"

// -- image_files.c ------------------------------------------------------------------------------
typedef struct ImageFiles {
  int64_t n, room;
  char **path;    // in the order of their bytes
  int64_t others; // number of images of other kinds, such as .webp, in the folders that were read
  char *other;    // the path of one of them, or NULL
} ImageFiles;
// Lists the images that a path stands for: a file; files that match the stars of the shell; those
// of a folder or, if it has none, of its folders. Files with another ending than .png, .jpg and
// .jpeg are left out, unless the path names one file. Returns false after an error in d. Images in
// folders that are not read are an error.
MUST_USE bool image_files(const char *path, ImageFiles *out, Diag *d, Pos at);
void image_files_free(ImageFiles *f);
// As image_files, but it is no error that there is none.
MUST_USE bool image_files_any(const char *path, ImageFiles *out, Diag *d, Pos at);
// Sets *name to the name of the folder that a file is in, and returns its length.
size_t image_folder(const char *path, const char **name);
// Returns whether the name of a file ends like that of an image of this format.
bool image_named(const char *path, ImageFormat f);

// -- list_images.c ------------------------------------------------------------------------------
// Lists the images of a folder in *out; leaves it as it is if there are none. All memory of *out is
// allocated in `a`. Returns false after an error in d.
MUST_USE bool list_images(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at);

// -- source_images.c ----------------------------------------------------------------------------
// Reads an image: writes row `row` of the source to `out`, in the type of the input. `epoch` is
// that of the random changes, which are drawn if the input has `augment`. Any thread, each with its
// own `w`. Returns false with a reason in `fault`.
MUST_USE bool image_row(const RowSource *s, int64_t row, int64_t epoch, ImageWork *w, void *out,
                        RowFault *fault);

#endif
