// Loads the relocatable ELF objects that LLVM makes of kernels. In: the bytes of an object. Out: an
// Image.
//
// All sections with code or constants are copied to one mapping, constants on pages of their own.
// Relocations are applied while the mapping is writable; then code becomes executable and constants
// read-only. Only the relocations that LLVM emits for position-independent kernels are supported.
#define _GNU_SOURCE // RTLD_DEFAULT
#include "ir/program/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ir/base/mem.h"

typedef struct Symbol {
  char *name;
  void *at;
} Symbol;

struct Image {
  char *map;
  size_t bytes;
  Symbol *symbol;
  size_t nsymbols;
};

typedef struct Object {
  const char *bytes;
  size_t n;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *section;
  size_t nsections;
  const Elf64_Sym *symbol;
  size_t nsymbols;
  const char *names; // the table with the names of symbols
  size_t names_bytes;
  size_t *offset; // of each section: its offset in bytes from the start of the mapping
  size_t code_bytes, bytes_all;
  char *map;
  char *why;
} Object;

enum { WHY = 200, MAX_ALIGN = 4096 };

static bool fail(const Object *o, const char *text) {
  snprintf(o->why, WHY, "%s", text);
  return false;
}

static bool within(const Object *o, uint64_t at, uint64_t n) {
  return at <= o->n && n <= o->n - at;
}
static const void *bytes_at(const Object *o, uint64_t at) { return o->bytes + at; }
static size_t round_up(size_t x, size_t to) { return (x + to - 1) / to * to; }

// -- reading ------------------------------------------------------------------------------------

static bool read_section(const Object *o, const Elf64_Shdr *s) {
  if (s->sh_addralign > MAX_ALIGN || (s->sh_addralign & (s->sh_addralign - 1)))
    return fail(o, "a section of the object has an impossible alignment");
  if (s->sh_type == SHT_NOBITS || within(o, s->sh_offset, s->sh_size)) return true;
  return fail(o, "a section of the object is cut off");
}

static bool read_head(Object *o) {
  if (!within(o, 0, sizeof *o->head)) return fail(o, "the object is cut off");
  const Elf64_Ehdr *h = o->head = bytes_at(o, 0);
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
      h->e_type != ET_REL)
    return fail(o, "the object is no 64-bit relocatable ELF file");
  o->nsections = h->e_shnum;
  if (h->e_shentsize != sizeof *o->section || h->e_shoff % 8 ||
      !within(o, h->e_shoff, o->nsections * sizeof *o->section))
    return fail(o, "the object's section table is broken");
  o->section = bytes_at(o, h->e_shoff);
  for (size_t i = 0; i < o->nsections; i++)
    if (!read_section(o, &o->section[i])) return false;
  return true;
}

static bool read_symbols(Object *o) {
  for (size_t i = 0; i < o->nsections; i++) {
    const Elf64_Shdr *s = &o->section[i];
    if (s->sh_type != SHT_SYMTAB) continue;
    if (s->sh_link >= o->nsections || s->sh_offset % 8)
      return fail(o, "the object's symbol table is broken");
    const Elf64_Shdr *names = &o->section[s->sh_link];
    o->symbol = bytes_at(o, s->sh_offset);
    o->nsymbols = s->sh_size / sizeof *o->symbol;
    o->names = bytes_at(o, names->sh_offset);
    o->names_bytes = names->sh_type == SHT_STRTAB ? names->sh_size : 0;
    if (o->names_bytes == 0 || o->names[o->names_bytes - 1] != 0)
      return fail(o, "the object's names are broken");
    return true;
  }
  return fail(o, "the object has no symbols");
}

static const char *symbol_name(const Object *o, const Elf64_Sym *s) {
  return s->st_name < o->names_bytes ? o->names + s->st_name : "";
}

// -- layout -------------------------------------------------------------------------------------

static bool in_image(const Elf64_Shdr *s) {
  return (s->sh_flags & SHF_ALLOC) && s->sh_size > 0 && s->sh_type == SHT_PROGBITS;
}

// Assigns offsets in the mapping, from `at` on, to the sections with code or, if `code` is false,
// to those with constants. Returns the offset behind the last of these sections.
static size_t lay_out(Object *o, size_t at, bool code) {
  for (size_t i = 0; i < o->nsections; i++) {
    const Elf64_Shdr *s = &o->section[i];
    if (!in_image(s) || ((s->sh_flags & SHF_EXECINSTR) != 0) != code) continue;
    o->offset[i] = round_up(at, s->sh_addralign ? s->sh_addralign : 1);
    at = o->offset[i] + s->sh_size;
  }
  return at;
}

static bool map_sections(Object *o) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  o->code_bytes = round_up(lay_out(o, 0, true), page);
  o->bytes_all = round_up(lay_out(o, o->code_bytes, false), page);
  if (o->bytes_all == 0) return fail(o, "the object is empty");
  void *map = mmap(NULL, o->bytes_all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) mem_exhausted(o->bytes_all);
  o->map = map;
  for (size_t i = 0; i < o->nsections; i++)
    if (in_image(&o->section[i]))
      memcpy(o->map + o->offset[i], bytes_at(o, o->section[i].sh_offset), o->section[i].sh_size);
  return true;
}

static bool protect(Object *o) {
  if (o->code_bytes && mprotect(o->map, o->code_bytes, PROT_READ | PROT_EXEC) != 0) {
    mem_check_errno();
    return fail(o, "the system does not let memory become executable");
  }
  size_t rest = o->bytes_all - o->code_bytes;
  if (rest && mprotect(o->map + o->code_bytes, rest, PROT_READ) != 0)
    return fail(o, "constants cannot be protected");
  __builtin___clear_cache(o->map, o->map + o->code_bytes);
  return true;
}

// -- relocation ---------------------------------------------------------------------------------

// Returns the address of a function that the thread sanitizer defines, or NULL.
static void *sanitizer_function(const char *name) {
  return THREAD_SANITIZER && !strncmp(name, "__tsan_", 7) ? dlsym(RTLD_DEFAULT, name) : NULL;
}

static bool symbol_address(const Object *o, const Elf64_Sym *s, uint64_t *out) {
  if (s->st_shndx == SHN_UNDEF) {
    *out = (uint64_t)(uintptr_t)sanitizer_function(symbol_name(o, s));
    if (*out) return true;
    snprintf(o->why, WHY, "generated code refers to %.100s, which nobody defines",
             symbol_name(o, s));
    return false;
  }
  if (s->st_shndx >= o->nsections || !in_image(&o->section[s->st_shndx]) ||
      s->st_value > o->section[s->st_shndx].sh_size)
    return fail(o, "a symbol of the object lies outside of its image");
  *out = (uint64_t)(uintptr_t)(o->map + o->offset[s->st_shndx]) + s->st_value;
  return true;
}

static bool put32(const Object *o, char *at, int64_t v) {
  if (v < INT32_MIN || v > INT32_MAX) return fail(o, "a relocation of the object does not reach");
  uint32_t bits = (uint32_t)v;
  memcpy(at, &bits, sizeof bits);
  return true;
}

// Replaces the bits of `mask` in the aarch64 instruction at address `at` by those of `value`.
// Always returns true, which the caller returns for a supported relocation.
static bool put_field(char *at, uint32_t mask, uint32_t value) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  word = (word & ~mask) | (value & mask);
  memcpy(at, &word, sizeof word);
  return true;
}

static bool relocate_x86(const Object *o, uint32_t type, char *at, uint64_t s, int64_t addend) {
  // unsigned, because a damaged object may have any addend
  uint64_t target = s + (uint64_t)addend, here = (uint64_t)(uintptr_t)at;
  int64_t value = (int64_t)target, distance = (int64_t)(target - here);
  switch (type) {
  case R_X86_64_64: memcpy(at, &value, sizeof value); return true;
  case R_X86_64_PC64: memcpy(at, &distance, sizeof distance); return true;
  case R_X86_64_PC32:
  case R_X86_64_PLT32: return put32(o, at, distance);
  }
  return fail(o, "a relocation of the object is of an unknown kind");
}

static bool relocate_arm(const Object *o, uint32_t type, char *at, uint64_t s, int64_t addend) {
  uint64_t value = s + (uint64_t)addend, here = (uint64_t)(uintptr_t)at;
  int64_t pages = (int64_t)((value & ~UINT64_C(4095)) - (here & ~UINT64_C(4095))) >> 12;
  uint32_t low = (uint32_t)value & 4095, p = (uint32_t)pages;
  switch (type) {
  case R_AARCH64_ABS64: memcpy(at, &value, sizeof value); return true;
  case R_AARCH64_PREL32: return put32(o, at, (int64_t)(value - here));
  case R_AARCH64_ADR_PREL_PG_HI21:
    return put_field(at, 0x60ffffe0, (p & 3) << 29 | (p >> 2 & 0x7ffff) << 5);
  case R_AARCH64_ADD_ABS_LO12_NC:
  case R_AARCH64_LDST8_ABS_LO12_NC: return put_field(at, 0xfff << 10, low << 10);
  case R_AARCH64_LDST16_ABS_LO12_NC: return put_field(at, 0xfff << 10, low >> 1 << 10);
  case R_AARCH64_LDST32_ABS_LO12_NC: return put_field(at, 0xfff << 10, low >> 2 << 10);
  case R_AARCH64_LDST64_ABS_LO12_NC: return put_field(at, 0xfff << 10, low >> 3 << 10);
  case R_AARCH64_LDST128_ABS_LO12_NC: return put_field(at, 0xfff << 10, low >> 4 << 10);
  case R_AARCH64_CALL26:
  case R_AARCH64_JUMP26: return put_field(at, 0x03ffffff, (uint32_t)((int64_t)(value - here) >> 2));
  }
  return fail(o, "a relocation of the object is of an unknown kind");
}

// Returns whether a relocation changes eight bytes; others change four.
static bool is_wide(const Object *o, uint32_t type) {
  if (o->head->e_machine == EM_AARCH64) return type == R_AARCH64_ABS64;
  return type == R_X86_64_64 || type == R_X86_64_PC64;
}

static bool relocate_section(const Object *o, const Elf64_Shdr *s) {
  if (s->sh_info >= o->nsections || s->sh_offset % 8)
    return fail(o, "the object's relocations are broken");
  const Elf64_Shdr *target = &o->section[s->sh_info];
  if (!in_image(target)) return true;
  const Elf64_Rela *r = bytes_at(o, s->sh_offset);
  for (size_t i = 0; i < s->sh_size / sizeof *r; i++) {
    uint64_t symbol, width = is_wide(o, (uint32_t)ELF64_R_TYPE(r[i].r_info)) ? 8 : 4;
    if (ELF64_R_SYM(r[i].r_info) >= o->nsymbols || target->sh_size < width ||
        r[i].r_offset > target->sh_size - width)
      return fail(o, "the object's relocations are broken");
    if (!symbol_address(o, &o->symbol[ELF64_R_SYM(r[i].r_info)], &symbol)) return false;
    char *at = o->map + o->offset[s->sh_info] + r[i].r_offset;
    uint32_t type = (uint32_t)ELF64_R_TYPE(r[i].r_info);
    bool ok = o->head->e_machine == EM_X86_64    ? relocate_x86(o, type, at, symbol, r[i].r_addend)
              : o->head->e_machine == EM_AARCH64 ? relocate_arm(o, type, at, symbol, r[i].r_addend)
                                                 : fail(o, "the object is for another processor");
    if (!ok) return false;
  }
  return true;
}

static bool relocate(const Object *o) {
  for (size_t i = 0; i < o->nsections; i++)
    if (o->section[i].sh_type == SHT_RELA && !relocate_section(o, &o->section[i])) return false;
  return true;
}

// -- symbols ------------------------------------------------------------------------------------

static bool is_function(const Elf64_Sym *s) {
  return ELF64_ST_TYPE(s->st_info) == STT_FUNC && s->st_shndx != SHN_UNDEF;
}

static Image *image_make(const Object *o) {
  Image *i = mem_zeroed(1, sizeof *i);
  i->symbol = mem_zeroed(o->nsymbols + 1, sizeof *i->symbol);
  i->map = o->map;
  i->bytes = o->bytes_all;
  for (size_t s = 0; s < o->nsymbols; s++) {
    uint64_t at;
    if (!is_function(&o->symbol[s]) || !symbol_address(o, &o->symbol[s], &at)) continue;
    i->symbol[i->nsymbols++] =
        (Symbol){mem_text(symbol_name(o, &o->symbol[s])), (void *)(uintptr_t)at};
  }
  return i;
}

Image *image_load(const char *bytes, size_t n, char *why) {
  Object o = {.bytes = bytes, .n = n, .why = why};
  Image *i = NULL;
  if (read_head(&o) && read_symbols(&o)) {
    o.offset = mem_zeroed(o.nsections + 1, sizeof *o.offset);
    if (map_sections(&o) && relocate(&o) && protect(&o)) i = image_make(&o);
  }
  if (!i && o.map) munmap(o.map, o.bytes_all);
  free(o.offset);
  return i;
}

void image_free(Image *i) {
  if (!i) return;
  munmap(i->map, i->bytes);
  for (size_t s = 0; s < i->nsymbols; s++) free(i->symbol[s].name);
  free(i->symbol);
  free(i);
}

void *image_symbol(const Image *i, const char *name) {
  for (size_t s = 0; s < i->nsymbols; s++)
    if (strcmp(i->symbol[s].name, name) == 0) return i->symbol[s].at;
  return NULL;
}
