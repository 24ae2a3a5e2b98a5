// The .npz format: a zip file of .npy files, stored or deflated, also with zip64 fields. Sizes are
// taken from the central directory, because writers may omit them in local headers.
#include "runtime/runtime_internal.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
  END_SIGN = 0x06054b50,
  CENTRAL_SIGN = 0x02014b50,
  LOCAL_SIGN = 0x04034b50,
  END64_SIGN = 0x06064b50,
  LOCATOR64_SIGN = 0x07064b50,
  END_BYTES = 22,
  CENTRAL_BYTES = 46,
  LOCAL_BYTES = 30,
};

typedef struct ZipMember {
  const char *name; // points into Zip.bytes; there is no NUL at its end
  // length of the name; bytes of the data in the file and after inflating; offset of the member's
  // local header in the file
  int64_t name_length, compressed, size, header;
  int method;
  uint32_t crc;
} ZipMember;

// The central directory of a zip file, read into memory.
typedef struct Zip {
  char *bytes;
  int64_t n, at;  // number of bytes of the directory; offset in it of the next entry
  int64_t offset; // offset of the directory in the file
} Zip;

static uint64_t little(const char *p, int n) {
  uint64_t x = 0;
  for (int i = n - 1; i >= 0; i--) x = x << 8 | (unsigned char)p[i];
  return x;
}

// Reads offset and length of the central directory from the zip64 end record. The zip64 locator has
// the offset of that record. The locator is the 20 bytes before `end`, the offset of the ordinary
// end record.
static bool find_directory64(const Datafile *f, int64_t end, int64_t *offset, int64_t *n,
                             char *why) {
  char locator[20], record[56];
  if (end < 20 || !datafile_read(f, end - 20, 20, locator, why) ||
      little(locator, 4) != LOCATOR64_SIGN)
    return why_not(why, "has a broken zip64 directory");
  int64_t at = (int64_t)little(locator + 8, 8);
  if (at < 0 || at > f->size - 56 || !datafile_read(f, at, 56, record, why) ||
      little(record, 4) != END64_SIGN)
    return why_not(why, "has a broken zip64 directory");
  *n = (int64_t)little(record + 40, 8);
  *offset = (int64_t)little(record + 48, 8);
  return true;
}

// Finds the end record of a zip file, and sets *offset and *n to the offset and length of the
// central directory. Only a comment of at most 64 KiB may follow the end record. So the search is
// limited to the end of the file.
static bool find_directory(const Datafile *f, int64_t *offset, int64_t *n, char *why) {
  int64_t room = clamp64(f->size, 0, 65535 + END_BYTES);
  char *tail = mem_alloc((size_t)room + 1);
  bool found = false, ok = datafile_read(f, f->size - room, room, tail, why);
  for (int64_t i = room - END_BYTES; ok && !found && i >= 0; i--) {
    if (little(tail + i, 4) != END_SIGN ||
        i + END_BYTES + (int64_t)little(tail + i + 20, 2) != room)
      continue;
    found = true;
    *n = (int64_t)little(tail + i + 12, 4);
    *offset = (int64_t)little(tail + i + 16, 4);
    if (*offset == UINT32_MAX || *n == UINT32_MAX)
      ok = find_directory64(f, f->size - room + i, offset, n, why);
  }
  free(tail);
  if (!ok) return false;
  if (!found) return why_not(why, "is no zip file, or is cut off: no directory at its end");
  if (*n < 0 || *offset < 0 || *n > f->size || *offset > f->size - *n)
    return why_not(why, "has its zip directory outside the file");
  return true;
}

static bool zip_open(const Datafile *f, Zip *z, char *why) {
  *z = (Zip){0};
  if (!find_directory(f, &z->offset, &z->n, why)) return false;
  z->bytes = mem_alloc((size_t)z->n + 1);
  if (datafile_read(f, z->offset, z->n, z->bytes, why)) return true;
  free(z->bytes);
  return false;
}

// Reads numbers that do not fit 32 bits from the zip64 extra field (number 1): the size, the
// compressed size and the offset of the header. The extra field has only those numbers whose 32-bit
// field is UINT32_MAX. Returns false if the field is malformed.
static bool extend64(ZipMember *m, const char *extra, int64_t n) {
  while (n >= 4) {
    int64_t length = (int64_t)little(extra + 2, 2);
    if (length > n - 4) return false;
    if (little(extra, 2) == 1) {
      int64_t *field[] = {&m->size, &m->compressed, &m->header};
      int64_t at = 0;
      for (size_t i = 0; i < countof(field); i++) {
        if (*field[i] != UINT32_MAX) continue;
        if (at + 8 > length) return false;
        *field[i] = (int64_t)little(extra + 4 + at, 8);
        at += 8;
      }
    }
    extra += 4 + length;
    n -= 4 + length;
  }
  return true;
}

// Reads the next entry of the central directory into *m. Returns false at the end, or with a reason
// in `why` if the entry is malformed.
static bool zip_next(Zip *z, ZipMember *m, char *why) {
  why[0] = 0;
  if (z->at == z->n) return false;
  const char *p = z->bytes + z->at;
  if (z->n - z->at < CENTRAL_BYTES || little(p, 4) != CENTRAL_SIGN)
    return why_not(why, "has a broken zip directory at byte %lld", (long long)(z->offset + z->at));
  m->name = p + CENTRAL_BYTES;
  m->name_length = (int64_t)little(p + 28, 2);
  int64_t extra = (int64_t)little(p + 30, 2), comment = (int64_t)little(p + 32, 2);
  int64_t length = CENTRAL_BYTES + m->name_length + extra + comment;
  m->method = (int)little(p + 10, 2);
  m->crc = (uint32_t)little(p + 16, 4);
  m->compressed = (int64_t)little(p + 20, 4);
  m->size = (int64_t)little(p + 24, 4);
  m->header = (int64_t)little(p + 42, 4);
  if (length > z->n - z->at || !extend64(m, m->name + m->name_length, extra))
    return why_not(why, "has a broken zip directory at byte %lld", (long long)(z->offset + z->at));
  if (little(p + 8, 2) & 1)
    return why_not(why, "is encrypted, by its directory at byte %lld",
                   (long long)(z->offset + z->at));
  z->at += length;
  return true;
}

static bool is_named(const ZipMember *m, const char *key) {
  int64_t n = (int64_t)strlen(key);
  bool begins = m->name_length >= n && memcmp(m->name, key, (size_t)n) == 0;
  return begins &&
         (m->name_length == n || (m->name_length == n + 4 && memcmp(m->name + n, ".npy", 4) == 0));
}

static voidpf take_memory(voidpf context, uInt n, uInt size) {
  (void)context;
  return mem_zeroed(n, size);
}
static void give_memory(voidpf context, voidpf p) {
  (void)context;
  free(p);
}

static bool inflate_member(char *compressed, int64_t n, char *out, int64_t size, char *why) {
  z_stream s = {.next_in = (unsigned char *)compressed,
                .next_out = (unsigned char *)out,
                .zalloc = take_memory,
                .zfree = give_memory};
  if (inflateInit2(&s, -MAX_WBITS) != Z_OK)
    return why_not(why, "cannot be inflated: %s", s.msg ? s.msg : "zlib does not start");
  int64_t in = n, room = size;
  int code = Z_OK;
  while (code == Z_OK) { // piece by piece, because zlib counts bytes in 32 bits
    if (s.avail_in == 0) in -= s.avail_in = (unsigned)clamp64(in, 0, 1 << 30);
    if (s.avail_out == 0) room -= s.avail_out = (unsigned)clamp64(room, 0, 1 << 30);
    code = inflate(&s, Z_NO_FLUSH);
  }
  bool complete = code == Z_STREAM_END && room == 0 && s.avail_out == 0;
  inflateEnd(&s);
  return complete || why_not(why, "has a member that does not inflate to the %lld bytes it claims",
                             (long long)size);
}

static bool check_crc(const char *bytes, int64_t n, uint32_t want, char *why) {
  uLong crc = crc32(0, NULL, 0);
  for (int64_t at = 0; at < n; at += 1 << 30)
    crc = crc32(crc, (const unsigned char *)bytes + at, (unsigned)clamp64(n - at, 0, 1 << 30));
  return crc == want || why_not(why, "has a member with a wrong checksum");
}

static bool read_member(const Datafile *f, const ZipMember *m, char **out, char *why) {
  char local[LOCAL_BYTES];
  if (m->method != 0 && m->method != 8)
    return why_not(why, "is packed by method %d; stored and deflated can be read", m->method);
  if (m->header < 0 || m->header > f->size - LOCAL_BYTES || m->compressed < 0 || m->size < 0)
    return why_not(why, "has a member outside the file");
  if (!datafile_read(f, m->header, LOCAL_BYTES, local, why)) return false;
  int64_t start =
      m->header + LOCAL_BYTES + (int64_t)little(local + 26, 2) + (int64_t)little(local + 28, 2);
  if (little(local, 4) != LOCAL_SIGN || start > f->size || m->compressed > f->size - start)
    return why_not(why, "has a member outside the file");
  // Deflate cannot compress by more than a factor of 1032: a larger one means a malicious or
  // damaged file.
  if (m->method == 0 ? m->size != m->compressed : m->size / 1032 > m->compressed + 1)
    return why_not(why, "has a member that claims %lld bytes", (long long)m->size);
  *out = mem_alloc((size_t)m->size + 1);
  char *compressed = m->method == 0 ? *out : mem_alloc((size_t)m->compressed + 1);
  bool ok = datafile_read(f, start, m->compressed, compressed, why);
  if (ok && m->method == 8) ok = inflate_member(compressed, m->compressed, *out, m->size, why);
  if (compressed != *out) free(compressed);
  if (ok && check_crc(*out, m->size, m->crc, why)) return true;
  free(*out);
  *out = NULL;
  return false;
}

// Reads the content of zip member m into *out, malloc'd. Returns false with a reason in `why` if
// the content cannot be read.
static bool read_at(const Datafile *f, const ZipMember *m, char **out, char *why) {
  char reason[WHY];
  return read_member(f, m, out, reason) ||
         why_not(why, "%.130s, of '%.*s' at byte %lld", reason, (int)clamp64(m->name_length, 0, 40),
                 m->name, (long long)m->header);
}

bool npz_member(const Datafile *f, const char *key, char **out, int64_t *n, char *why) {
  Zip z;
  ZipMember m, found = {0};
  int count = 0;
  *out = NULL;
  if (!zip_open(f, &z, why)) return false;
  while (zip_next(&z, &m, why)) {
    if (!is_named(&m, key)) continue;
    found = m;
    count++;
  }
  bool ok = why[0] == 0;
  if (ok && count != 1)
    ok = why_not(why, count ? "has '%.80s' twice" : "has no array '%.80s'", key);
  ok = ok && read_at(f, &found, out, why);
  *n = found.size;
  free(z.bytes);
  return ok;
}

bool npz_names(Arena *a, const Datafile *f, const char ***out, char *why) {
  Zip z;
  ZipMember m;
  VEC(const char *) names = {0};
  if (!zip_open(f, &z, why)) return false;
  while (zip_next(&z, &m, why)) {
    int64_t n = m.name_length;
    if (n >= 4 && memcmp(m.name + n - 4, ".npy", 4) == 0) n -= 4;
    vec_push(a, names) = arena_text(a, m.name, (size_t)n);
  }
  vec_push(a, names) = NULL;
  *out = names.at;
  free(z.bytes);
  return why[0] == 0;
}
