/* Opens a package again and again, each time with another byte of a file changed, or with the file
 * cut off, and expects an error every time: `damaged DIR FILE...`. Prints how many there were. The
 * files are restored. Linked with -lmeshc_run. */
#include <meshc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

/* Returns whether the package is refused, with an error that names a place. */
static int refused(void) {
  meshc_error *error = NULL;
  meshc_model *m = meshc_open_package(folder, NULL, &error);
  meshc_program *p = m ? meshc_compile(m, MESHC_PREDICT, NULL, 0, &error) : NULL;
  int named = !p && meshc_error_count(error) && strstr(meshc_error_at(error, 0)->text, folder) &&
              meshc_error_at(error, 0)->code[0] == 'E';
  meshc_error_free(error);
  meshc_close(m);
  return named;
}

static void put(const char *path, const char *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  if (!f || (n && fwrite(bytes, 1, n, f) != n) || fclose(f)) exit(2);
}

static long damage(const char *path, char *bytes, size_t n) {
  long wrong = 0;
  for (size_t i = 0; i < n; i++) {
    char was = bytes[i];
    bytes[i] = (char)(was ^ 1 << i % 8);
    put(path, bytes, n);
    if (!refused()) printf("%s: byte %zu changed and accepted\n", path, i), wrong++;
    bytes[i] = was;
    if (i % 7 == 0) {
      put(path, bytes, i);
      if (!refused()) printf("%s: cut off after %zu bytes and accepted\n", path, i), wrong++;
    }
  }
  put(path, bytes, n);
  return wrong;
}

int main(int argc, char **argv) {
  long wrong = 0, tried = 0;
  if (argc < 3) return 2;
  folder = argv[1];
  for (int i = 2; i < argc; i++) {
    char path[512], *bytes = malloc(1 << 20);
    snprintf(path, sizeof path, "%s/%s", folder, argv[i]);
    FILE *f = fopen(path, "rb");
    if (!f || !bytes) return 2;
    size_t n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    wrong += damage(path, bytes, n);
    tried += (long)(n + n / 7);
    free(bytes);
  }
  if (refused()) printf("the restored package is refused\n"), wrong++;
  printf("damaged: %ld changes, %ld accepted\n", tried, wrong);
  return wrong != 0;
}
