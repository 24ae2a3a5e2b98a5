// Lists the image files that a path of a model stands for, in an order that does not depend on the
// file system, and the labels that their folders give them.
//
//   animals/cat/1.png  animals/cat/2.jpg  animals/dog/1.png     "animals", "animals/*/*"
#include "runtime/data/csv_source_internal.h"
#include "runtime/data/image_source_internal.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

// -- files --------------------------------------------------------------------------------------

bool image_named(const char *path, ImageFormat f) {
  static const char *const ends[][2] = {
      [IMAGE_PNG] = {".png", ".png"}, [IMAGE_JPEG] = {".jpg", ".jpeg"}};
  size_t n = strlen(path);
  for (int i = 0; i < 2; i++) {
    size_t k = strlen(ends[f][i]);
    if (n > k && strcasecmp(path + n - k, ends[f][i]) == 0) return true;
  }
  return false;
}

static bool is_image(const char *path) {
  return image_named(path, IMAGE_PNG) || image_named(path, IMAGE_JPEG);
}

static bool is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

// Adds a path, which the list owns from now on.
static void add(ImageFiles *f, char *path) {
  if (f->n == f->room) {
    f->room = f->room ? 2 * f->room : 64;
    f->path = mem_grow(f->path, (size_t)f->room * sizeof *f->path);
  }
  f->path[f->n++] = path;
}

// Counts a file that is left out, if it is an image of another kind.
static void leave_out(ImageFiles *f, const char *path) {
  static const char *const ends[] = {".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif"};
  const char *end = strrchr(path, '.');
  for (size_t i = 0; end && i < countof(ends); i++) {
    if (strcasecmp(end, ends[i]) != 0) continue;
    if (f->others++ == 0) f->other = mem_text(path);
  }
}

// Adds the images of a folder to `files`, and its folders to `folders` if that is not NULL. Names
// that begin with a period are left out. Returns false if the folder cannot be read.
static bool read_folder(const char *path, ImageFiles *files, ImageFiles *folders) {
  DIR *folder = mem_opendir(path);
  if (!folder) return false;
  for (const struct dirent *e; (e = readdir(folder));) {
    if (e->d_name[0] == '.') continue;
    char *name = path_under(path, e->d_name);
    if (is_image(name)) {
      add(files, name);
      continue;
    }
    bool inner = folders && is_folder(name);
    if (!inner) leave_out(files, name);
    if (inner)
      add(folders, name);
    else
      free(name);
  }
  closedir(folder);
  return true;
}

static bool say_unread(const char *path, Diag *d, Pos at) {
  return diag_error(d, DIAG_FILE_MISSING, at, "cannot read the folder %s: %s", path,
                    strerror(errno));
}

// Returns true if none of the folders, which are not read, has an image. `path` is the folder that
// has them, `depth` the number of folders between it and that of the source. `own` is an image of
// the folder itself, or NULL.
static bool check_hidden(const char *path, int depth, const char *own, const ImageFiles *folders,
                         Diag *d, Pos at) {
  ImageFiles hidden = {0};
  for (int64_t i = 0; i < folders->n && hidden.n == 0; i++)
    (void)read_folder(folders->path[i], &hidden, NULL);
  bool good = hidden.n == 0;
  if (!good && own)
    diag_error(d, DIAG_DATA_SHAPE, at,
               "%s has images of its own, such as %s, and in folders, such as %s", path, own,
               hidden.path[0]);
  else if (!good)
    diag_error(d, DIAG_DATA_SHAPE, at, "%s has images in folders, such as %s, which are not read",
               path, hidden.path[0]);
  if (!good && depth)
    diag_hint(d, "the images of a class are in one folder: move them there");
  else if (!good)
    diag_hint(d,
              "move the ones or the others, or write the path with stars: \"%s/*/*\" are those "
              "in folders",
              path);
  image_files_free(&hidden);
  return good;
}

// Adds the images of a folder of a folder.
static bool list_inner(const char *path, ImageFiles *out, Diag *d, Pos at) {
  ImageFiles inner = {0};
  int64_t before = out->n;
  bool good = read_folder(path, out, &inner) || say_unread(path, d, at);
  const char *own = out->n > before ? out->path[before] : NULL;
  good = good && check_hidden(path, 1, own, &inner, d, at);
  image_files_free(&inner);
  return good;
}

// Adds the images of a folder or, if it has none, of its folders.
static bool list_folder(const char *path, ImageFiles *out, Diag *d, Pos at) {
  ImageFiles inner = {0};
  bool good = read_folder(path, out, &inner) || say_unread(path, d, at);
  bool own = out->n > 0;
  for (int64_t i = 0; i < inner.n && good && !own; i++)
    good = list_inner(inner.path[i], out, d, at);
  if (good && own) good = check_hidden(path, 0, out->path[0], &inner, d, at);
  image_files_free(&inner);
  return good;
}

static bool list_matches(const char *path, ImageFiles *out, Diag *d, Pos at) {
  glob_t g = {0};
  bool good = true;
  int found = glob(path, GLOB_NOSORT, NULL, &g);
  if (found == GLOB_NOSPACE) mem_exhausted(0);
  for (size_t i = 0; found == 0 && good && i < g.gl_pathc; i++) {
    const char *name = g.gl_pathv[i];
    if (is_image(name))
      add(out, mem_text(name));
    else if (is_folder(name))
      good = read_folder(name, out, NULL) || say_unread(name, d, at);
  }
  if (found == 0) globfree(&g);
  return good;
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

bool image_files_any(const char *path, ImageFiles *out, Diag *d, Pos at) {
  struct stat s;
  bool good = true;
  *out = (ImageFiles){0};
  bool there = stat(path, &s) == 0;
  if (there && S_ISDIR(s.st_mode))
    good = list_folder(path, out, d, at);
  else if (!there && strpbrk(path, "*?["))
    good = list_matches(path, out, d, at);
  else if (there)
    add(out, mem_text(path));
  else
    good = diag_error(d, DIAG_FILE_MISSING, at, "%s cannot be opened: %s", path, strerror(ENOENT));
  if (good && out->n) qsort(out->path, (size_t)out->n, sizeof *out->path, by_bytes);
  return good;
}

bool image_files(const char *path, ImageFiles *out, Diag *d, Pos at) {
  if (!image_files_any(path, out, d, at)) return false;
  if (out->n) return true;
  diag_error(d, DIAG_FILE_MISSING, at, "no image matches %s", path);
  return diag_hint(d, "images are files that end in .png, .jpg or .jpeg; a path is that of a "
                      "folder, or has stars, such as \"animals/*/*\"");
}

void image_files_free(ImageFiles *f) {
  for (int64_t i = 0; i < f->n; i++) free(f->path[i]);
  free(f->path);
  free(f->other);
  *f = (ImageFiles){0};
}

size_t image_folder(const char *path, const char **name) {
  const char *slash = strrchr(path, '/');
  if (!slash) {
    *name = ".";
    return 1;
  }
  while (slash > path && slash[-1] == '/') slash--; // "animals/cat//1.png"
  const char *from = slash;
  while (from > path && from[-1] != '/') from--;
  *name = from;
  return (size_t)(slash - from);
}

// -- labels -------------------------------------------------------------------------------------

static bool say_no_class(const RowSource *s, const char *path, size_t n, const char *name,
                         Diag *d) {
  diag_error(d, DIAG_DATA_VALUE, s->input->pos, "%s: its folder '%.*s' is none of the classes",
             path, (int)n, name);
  return diag_hint(d,
                   s->input->source->classes == CLASSES_AUTO
                       ? "the classes are the folders in data train, or those with the parameters"
                       : "add it to the classes of the source");
}

static void take_names(const RowSource *s, Classes *c) {
  const SourceFacts *facts = s->input->facts;
  const char *list = s->input->source->class_list;
  if (s->input->source->classes == CLASSES_LISTED)
    for (const char *end; (end = strchr(list, '\n')); list = end + 1)
      (void)classes_find(c, list, (size_t)(end - list), true);
  else
    for (uint32_t i = 0; facts && i < facts->nclasses; i++)
      (void)classes_find(c, facts->class_name[i], strlen(facts->class_name[i]), true);
}

static bool number_files(RowSource *s, const ImageFiles *f, Classes *c, Diag *d) {
  int32_t *label = mem_alloc((size_t)f->n * sizeof *label + 1);
  s->memory = (char *)label;
  for (int64_t i = 0; i < f->n; i++) {
    const char *name;
    size_t n = image_folder(f->path[i], &name);
    label[i] = (int32_t)classes_find(c, name, n, false);
    if (label[i] < 0) return say_no_class(s, f->path[i], n, name, d);
  }
  ArrayPlace p = {.raw = raw_of(TYPE_I32), .rank = 1, .size = {f->n}};
  source_place(s, &p);
  return true;
}

bool source_labels(RowSource *s, Diag *d) {
  ImageFiles f;
  Classes c = {0};
  bool good = image_files(s->path, &f, d, s->input->pos);
  if (good) take_names(s, &c);
  good = good && number_files(s, &f, &c, d);
  image_files_free(&f);
  classes_free(&c);
  return good;
}

bool labels_learn(Arena *a, const FeedInput *input, const char *directory, SourceFacts *out,
                  Diag *d) {
  ImageFiles f;
  Classes c = {0};
  char *path = path_under(directory, input->source->path);
  bool good = image_files(path, &f, d, input->pos);
  for (int64_t i = 0; i < f.n && good; i++) {
    const char *name;
    size_t n = image_folder(f.path[i], &name);
    if (classes_find(&c, name, n, true) >= 0) continue;
    good = diag_error(d, DIAG_DATA_VALUE, input->pos, "%s has more than %d folders", path,
                      MOST_CLASSES);
  }
  if (good) {
    classes_sort(&c);
    const char **name = arena_array(a, const char *, c.n + 1);
    for (uint32_t i = 0; i < c.n; i++) name[i] = arena_text(a, c.name[i], strlen(c.name[i]));
    *out = (SourceFacts){.input = input->name, .nclasses = c.n, .class_name = name};
  }
  image_files_free(&f);
  classes_free(&c);
  free(path);
  return good;
}

bool image_file_name(const char *path, int64_t number, char *out, size_t room) {
  ImageFiles f;
  Arena *a = arena_new();
  bool good = image_files(path, &f, diag_new(a), (Pos){0}) && number < f.n;
  if (good) snprintf(out, room, "%s", f.path[number]);
  image_files_free(&f);
  arena_free(a);
  return good;
}
