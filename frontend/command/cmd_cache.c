// The command cache: lists the entries of the compile cache, as text or JSON; --clear removes them.
#include "frontend/driver/session.h"

#include <string.h>
#include <time.h>

static int print_json(const char *folder, const CacheFolder *all) {
  json_t *out = json_object(), *list = json_array();
  for (uint32_t i = 0; i < all->n; i++) {
    const CacheEntry *e = &all->entry[i];
    json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "key", e->key, "bytes",
                                          (json_int_t)e->bytes, "used", (json_int_t)e->used));
  }
  json_object_set_new(out, "schema", json_string("meshc.cache/1"));
  json_object_set_new(out, "folder", folder ? json_text(folder) : json_null());
  json_object_set_new(out, "used", json_boolean(folder && !all->refused));
  json_object_set_new(out, "entries", list);
  json_object_set_new(out, "bytes", json_integer(all->bytes));
  json_object_set_new(out, "limit", json_integer(all->limit));
  return json_finish(out);
}

static void print_text(const Session *s, const char *folder, const CacheFolder *all) {
  printf("folder   %s\n", folder);
  if (all->refused)
    printf(
        "not used: the folder belongs to another user, or others may write in it (chmod go-w)\n");
  printf("entries  %u, %s of at most %s\n", all->n, bytes_text(s->arena, all->bytes),
         bytes_text(s->arena, all->limit));
  for (uint32_t i = all->n; i-- > 0;) {
    const CacheEntry *e = &all->entry[i];
    char when[32] = "";
    time_t used = (time_t)e->used;
    struct tm t;
    if (localtime_r(&used, &t)) strftime(when, sizeof when, "%Y-%m-%d %H:%M", &t);
    printf("  %.16s  %10s  used %s\n", e->key, bytes_text(s->arena, e->bytes), when);
  }
}

int cmd_cache(Session *s) {
  const char *folder = cache_folder(s);
  if (!folder) {
    diag_error(s->diag, DIAG_FAILURE, (Pos){0},
               "there is no compile cache: neither XDG_CACHE_HOME nor HOME is set");
    return 0;
  }
  if (option_given(s->opt, OPTION_CLEAR)) {
    uint32_t n = cache_clear(folder);
    if (!option_given(s->opt, OPTION_JSON)) {
      printf("%u entr%s removed from %s\n", n, n == 1 ? "y" : "ies", folder);
      return 0;
    }
  }
  CacheFolder all = cache_list(s->arena, folder);
  if (option_given(s->opt, OPTION_JSON)) return print_json(folder, &all);
  print_text(s, folder, &all);
  return 0;
}
