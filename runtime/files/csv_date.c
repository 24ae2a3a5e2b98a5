// Parses dates: ISO 8601 or a format with the letters of strptime that stand for numbers, names of
// months in English, and offsets from UTC. The result is exact to the microsecond.
#include "runtime/files/csv_internal.h"

#include <string.h>
#include <strings.h>

typedef struct Moment {
  int64_t year, month, day, hour, minute;
  double second;
  int64_t offset; // seconds east of UTC
} Moment;

// Text that is being read: p..end-1.
typedef struct Cursor {
  const char *p, *end;
} Cursor;

static bool digits(Cursor *c, int least, int most, int64_t *out) {
  int n = 0;
  *out = 0;
  for (; n < most && c->p < c->end && *c->p >= '0' && *c->p <= '9'; n++)
    *out = 10 * *out + (*c->p++ - '0');
  return n >= least;
}

static bool literal(Cursor *c, char want) {
  if (c->p == c->end || *c->p != want) return false;
  c->p++;
  return true;
}

static bool month_name(Cursor *c, int64_t *out) {
  static const char *const name[] = {"january",   "february", "march",    "april",
                                     "may",       "june",     "july",     "august",
                                     "september", "october",  "november", "december"};
  for (int i = 0; i < 12; i++) {
    size_t n = strlen(name[i]), left = (size_t)(c->end - c->p);
    size_t take = left >= n && strncasecmp(c->p, name[i], n) == 0   ? n
                  : left >= 3 && strncasecmp(c->p, name[i], 3) == 0 ? 3
                                                                    : 0;
    if (!take) continue;
    c->p += take;
    *out = i + 1;
    return true;
  }
  return false;
}

static bool fraction(Cursor *c, double *out) {
  double unit = 1;
  int n = 0;
  *out = 0;
  for (; c->p < c->end && *c->p >= '0' && *c->p <= '9'; n++) {
    unit /= 10;
    if (n < 9) *out += unit * (*c->p - '0');
    c->p++;
  }
  return n > 0;
}

// Reads Z, +hh, +hhmm or +hh:mm.
static bool zone(Cursor *c, int64_t *out) {
  int64_t hours, minutes = 0;
  *out = 0;
  if (literal(c, 'Z')) return true;
  bool west = c->p < c->end && *c->p == '-';
  if (!west && !(c->p < c->end && *c->p == '+')) return false;
  c->p++;
  if (!digits(c, 2, 2, &hours) || hours > 23) return false;
  bool more = literal(c, ':') || (c->p < c->end && *c->p >= '0' && *c->p <= '9');
  if (more && (!digits(c, 2, 2, &minutes) || minutes > 59)) return false;
  *out = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
  return true;
}

static bool iso_date(Cursor *c, Moment *m) {
  if (!digits(c, 4, 4, &m->year) || !literal(c, '-') || !digits(c, 2, 2, &m->month) ||
      !literal(c, '-') || !digits(c, 2, 2, &m->day))
    return false;
  if (c->p == c->end) return true;
  if (!literal(c, 'T') && !literal(c, ' ')) return false;
  if (!digits(c, 2, 2, &m->hour) || !literal(c, ':') || !digits(c, 2, 2, &m->minute)) return false;
  if (literal(c, ':')) {
    int64_t seconds;
    double part = 0;
    if (!digits(c, 2, 2, &seconds) || (literal(c, '.') && !fraction(c, &part))) return false;
    m->second = (double)seconds + part;
  }
  return c->p == c->end || zone(c, &m->offset);
}

static bool read_letter(Cursor *c, char letter, Moment *m) {
  int64_t x;
  double part;
  switch (letter) {
  case 'Y': return digits(c, 4, 4, &m->year);
  case 'y':
    if (!digits(c, 2, 2, &x)) return false;
    m->year = x < 69 ? 2000 + x : 1900 + x;
    return true;
  case 'm': return digits(c, 1, 2, &m->month);
  case 'd': return digits(c, 1, 2, &m->day);
  case 'b':
  case 'B': return month_name(c, &m->month);
  case 'H': return digits(c, 1, 2, &m->hour);
  case 'M': return digits(c, 1, 2, &m->minute);
  case 'S':
    if (!digits(c, 1, 2, &x)) return false;
    m->second += (double)x;
    return true;
  case 'f':
    if (!fraction(c, &part)) return false;
    m->second += part;
    return true;
  case 'z': return zone(c, &m->offset);
  default: return literal(c, letter);
  }
}

static bool read_format(Cursor *c, const char *format, Moment *m) {
  for (const char *f = format; *f; f++) {
    bool letter = *f == '%' && f[1];
    if (letter ? !read_letter(c, *++f, m) : !literal(c, *f)) return false;
  }
  return true;
}

// Returns the days from 1970-01-01 to a date of the Gregorian calendar. Years are counted from
// March, so that a leap day is the last of its year.
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
  int64_t y = year - (month <= 2), from_march = (month + 9) % 12;
  return 365 * y + y / 4 - y / 100 + y / 400 + (153 * from_march + 2) / 5 + day - 1 - 719468;
}

static bool is_real(const Moment *m) {
  static const int length[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (m->year < 1 || m->month < 1 || m->month > 12) return false;
  bool leap = (m->year % 4 == 0 && m->year % 100 != 0) || m->year % 400 == 0;
  int last = length[m->month - 1] + (leap && m->month == 2);
  return m->day >= 1 && m->day <= last && m->hour <= 23 && m->minute <= 59 && m->second < 61;
}

bool date_parse(const char *text, size_t n, const char *format, double *out) {
  Cursor c = {text, text + n};
  Moment m = {.year = 1970, .month = 1, .day = 1};
  bool good = strcmp(format, "iso") == 0 ? iso_date(&c, &m) : read_format(&c, format, &m);
  if (!good || c.p != c.end || !is_real(&m)) return false;
  *out =
      (double)(days_of(m.year, m.month, m.day) * 86400 + m.hour * 3600 + m.minute * 60 - m.offset) +
      m.second;
  return true;
}
