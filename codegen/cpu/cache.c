// Files of the compile cache: one for each set of kernels, named by the hash of all that its
// content depends on.
//
//   "meshc objects 1\n"  sha-256 of what follows  [size u64, bytes padded to 16] ...
//
// Machine code from a file is executed. A file is therefore used only if directory and file belong
// to the user, nobody else may read or write them, and the checksum is correct.
#include "codegen/cpu/cache_internal.h"
#include "ir/base/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// -- SHA-256 (FIPS 180-4) -----------------------------------------------------------------------

static const uint32_t round_key[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

// One round of the 64. The eight words of the state change their names from round to round, so that
// none is moved.
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
  {                                                                                                \
    uint32_t t = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) +        \
                 round_key[i] + w[i];                                                              \
    d += t;                                                                                        \
    h = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));            \
  }

static void mix(Hash *h) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)h->block[4 * i] << 24 | (uint32_t)h->block[4 * i + 1] << 16 |
           (uint32_t)h->block[4 * i + 2] << 8 | h->block[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
           (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  memcpy(s, h->state, sizeof s);
  for (int i = 0; i < 64; i += 8) {
    ROUND(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], i)
    ROUND(s[7], s[0], s[1], s[2], s[3], s[4], s[5], s[6], i + 1)
    ROUND(s[6], s[7], s[0], s[1], s[2], s[3], s[4], s[5], i + 2)
    ROUND(s[5], s[6], s[7], s[0], s[1], s[2], s[3], s[4], i + 3)
    ROUND(s[4], s[5], s[6], s[7], s[0], s[1], s[2], s[3], i + 4)
    ROUND(s[3], s[4], s[5], s[6], s[7], s[0], s[1], s[2], i + 5)
    ROUND(s[2], s[3], s[4], s[5], s[6], s[7], s[0], s[1], i + 6)
    ROUND(s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[0], i + 7)
  }
  for (int i = 0; i < 8; i++) h->state[i] += s[i];
}

void hash_start(Hash *h) {
  *h = (Hash){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                        0x1f83d9ab, 0x5be0cd19}};
}

void hash_add(Hash *h, const void *at, size_t n) {
  const uint8_t *p = at;
  while (n > 0) {
    size_t used = h->bytes % 64, take = 64 - used < n ? 64 - used : n;
    memcpy(h->block + used, p, take);
    h->bytes += take;
    p += take;
    n -= take;
    if (h->bytes % 64 == 0) mix(h);
  }
}

void hash_text(Hash *h, const char *text) { hash_add(h, text, strlen(text) + 1); }

void hash_end(Hash *h, uint8_t out[HASH_BYTES]) {
  uint64_t bits = h->bytes * 8;
  uint8_t pad[64] = {0x80}, length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  hash_add(h, pad, (h->bytes % 64 < 56 ? 56 : 120) - h->bytes % 64);
  hash_add(h, length, sizeof length);
  for (int i = 0; i < HASH_BYTES; i++) out[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

// -- files --------------------------------------------------------------------------------------

static const char magic[16] = "meshc objects 1\n";
enum { HEAD = (int)sizeof magic + HASH_BYTES };

bool cache_is_ours(const struct stat *s) {
  return s->st_uid == geteuid() && (s->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Opens directory `dir`. Returns its file descriptor, or -1 if it does not exist or is not trusted
// (cache_is_ours).
static int open_dir(const char *dir) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  struct stat s;
  if (fd >= 0 && fstat(fd, &s) == 0 && cache_is_ours(&s)) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static void make_dirs(const char *dir) {
  char *path = mem_text(dir);
  for (char *p = path + 1; *p; p++) {
    if (*p != '/') continue;
    *p = 0;
    if (!disk_make(AT_FDCWD, path, 0700) && errno != EEXIST) break;
    *p = '/';
  }
  (void)disk_make(AT_FDCWD, path, 0700);
  free(path);
}

static void file_name(const uint8_t key[HASH_BYTES], char out[2 * HASH_BYTES + 3]) {
  for (int i = 0; i < HASH_BYTES; i++) sprintf(out + 2 * i, "%02x", key[i]);
  strcpy(out + 2 * HASH_BYTES, ".o");
}

// Writes to out the SHA-256 of a file of the cache, without its first HEAD bytes: the text `magic`
// and the stored hash.
static void checksum(const Bytes *file, uint8_t out[HASH_BYTES]) {
  Hash h;
  hash_start(&h);
  hash_add(&h, file->at + HEAD, file->n - HEAD);
  hash_end(&h, out);
}

static bool read_all(int fd, char *at, size_t n) {
  while (n > 0) {
    ssize_t got = read(fd, at, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    n -= (size_t)got;
  }
  return true;
}

// Reads the whole file `name` of the open directory `dir` into *out. Returns false if other users
// may use the file or its checksum is wrong. The caller frees out->at in any case.
static bool read_file(int dir, const char *name, Bytes *out) {
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  struct stat s;
  bool ok =
      fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && cache_is_ours(&s) && s.st_size >= HEAD;
  *out = (Bytes){NULL, 0};
  if (ok) {
    out->n = (size_t)s.st_size;
    out->at = mem_alloc(out->n);
    ok = read_all(fd, out->at, out->n) && memcmp(out->at, magic, sizeof magic) == 0;
  }
  if (ok) {
    uint8_t sum[HASH_BYTES];
    checksum(out, sum);
    ok = memcmp(sum, out->at + sizeof magic, HASH_BYTES) == 0;
  }
  if (fd >= 0) close(fd);
  return ok;
}

static uint64_t padded(uint64_t n) { return (n + 15) / 16 * 16; }

static uint32_t split_objects(const Bytes *file, Bytes **out) {
  uint32_t n = 0;
  *out = NULL;
  for (size_t at = HEAD; at < file->n;) {
    uint64_t size;
    if (file->n - at < 16) break;
    memcpy(&size, file->at + at, sizeof size);
    if (padded(size) > file->n - at - 16) break;
    *out = mem_grow(*out, (n + 1) * sizeof **out);
    Bytes *object = &(*out)[n++];
    *object = (Bytes){mem_alloc(size + 1), size};
    memcpy(object->at, file->at + at + 16, size);
    at += 16 + padded(size);
  }
  return n;
}

uint32_t cache_read(const char *dir, const uint8_t key[HASH_BYTES], Bytes **out) {
  char name[2 * HASH_BYTES + 3];
  int d = open_dir(dir);
  if (d < 0) return 0;
  file_name(key, name);
  Bytes file;
  uint32_t n = read_file(d, name, &file) ? split_objects(&file, out) : 0;
  // Sets the time of last use: cache_shrink first removes files that have not been used for long.
  if (n > 0) utimensat(d, name, NULL, AT_SYMLINK_NOFOLLOW);
  free(file.at);
  close(d);
  return n;
}

static Bytes join_objects(uint32_t n, const Bytes *objects) {
  size_t bytes = HEAD;
  for (uint32_t i = 0; i < n; i++) bytes += 16 + padded(objects[i].n);
  Bytes file = {mem_zeroed(bytes, 1), bytes};
  memcpy(file.at, magic, sizeof magic);
  char *at = file.at + HEAD;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t size = objects[i].n;
    memcpy(at, &size, sizeof size);
    memcpy(at + 16, objects[i].at, size);
    at += 16 + padded(size);
  }
  checksum(&file, (uint8_t *)file.at + sizeof magic);
  return file;
}

// Returns whether the write of an entry of `bytes` bytes shall also check the size of the cache
// folder. Listing the folder takes time. Therefore the answer is random: true on average once for
// every 1/64 of the size limit that is written. Two bytes of the key, which is a hash, serve as the
// random number.
static bool time_to_shrink(const uint8_t key[HASH_BYTES], size_t bytes) {
  enum { PARTS = 64 };
  return (key[0] << 8 | key[1]) * (double)cache_limit() < PARTS * 0x1p16 * (double)bytes;
}

void cache_write(const char *dir, const uint8_t key[HASH_BYTES], uint32_t n, const Bytes *objects) {
  char name[2 * HASH_BYTES + 3];
  DiskFile f;
  make_dirs(dir);
  int d = open_dir(dir);
  if (d < 0) return;
  file_name(key, name);
  Bytes file = join_objects(n, objects);
  if (disk_begin_in(&f, d, name, 0600)) {
    // No fsync: if the machine crashes before the data is on disk, the checksum shows it.
    f.fast = true;
    disk_put(&f, file.at, file.n);
    (void)!disk_commit(&f);
  }
  bool look = time_to_shrink(key, file.n);
  free(file.at);
  close(d);
  if (look) cache_shrink(dir);
}
