// Tests CSV files: numbers against strtod, dates against known moments, and the values of sources
// with every option, however their rows are read.
#include "tests/unit/data_frame.h"

#include <math.h>

#include "runtime/files/csv_internal.h"

// -- numbers ------------------------------------------------------------------------------------

static void expect_number(const char *text) {
  double got, want = strtod(text, NULL);
  if (!csv_number(text, strlen(text), '.', &got)) fail_msg("%s is refused", text);
  if (memcmp(&got, &want, sizeof got) != 0) fail_msg("%s is %.17g, not %.17g", text, got, want);
}

static void numbers_as_strtod(void **state) {
  (void)state;
  static const char *const given[] = {"0",
                                      "-0",
                                      "+1",
                                      "5.",
                                      ".5",
                                      "-.5e1",
                                      "1e0",
                                      "1E+5",
                                      "007",
                                      "123456789012345678",
                                      "9007199254740993",
                                      "9007199254740992.5",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "1e22",
                                      "1e23",
                                      "8.5e22",
                                      "1.7976931348623157e308",
                                      "4.9e-324",
                                      "2.2250738585072014e-308",
                                      "0.1",
                                      "0.30000000000000004",
                                      "1e-27",
                                      "12345678901234567e-27",
                                      "179769313486231570000000e-5",
                                      "6929495644600919.5",
                                      "3.5e-27",
                                      "0.000000000000000000000000001",
                                      "1.00000000000000011102230246251565404",
                                      "1.00000000000000011102230246251565405"};
  for (size_t i = 0; i < countof(given); i++) expect_number(given[i]);
  static const int places[] = {17, 3, 6, 9};
  srand(7);
  for (int i = 0; i < 200000; i++) {
    char text[400];
    double x = ldexp((double)rand() / RAND_MAX - 0.5, rand() % 120 - 60);
    int n = places[i / 3 % (int)countof(places)];
    if (i % 3 == 0) snprintf(text, sizeof text, "%.*g", n, x);
    if (i % 3 == 1) snprintf(text, sizeof text, "%.*e", n + 1, x);
    if (i % 3 == 2) snprintf(text, sizeof text, "%.*f", n, x);
    expect_number(text);
  }
}

static void no_numbers(void **state) {
  (void)state;
  static const char *const given[] = {"",     "-",   ".",   "e5",  "1e",    "1e+", "1.2.3", "1,5",
                                      "0x10", "nan", "inf", "1 2", "1e999", "--1", "1_000", "12a"};
  double x;
  for (size_t i = 0; i < countof(given); i++)
    if (csv_number(given[i], strlen(given[i]), '.', &x)) fail_msg("%s is %g", given[i], x);
  assert_true(csv_number("1,5", 3, ',', &x) && x == 1.5);
  assert_false(csv_number("1.5", 3, ',', &x));
  assert_true(csv_number("1,00000000000000011102230246251565405", 37, ',', &x) && x > 1);
}

// -- dates --------------------------------------------------------------------------------------

static void dates(void **state) {
  (void)state;
  static const struct {
    const char *format, *text;
    double seconds;
  } good[] = {{"iso", "1970-01-01", 0},
              {"iso", "2000-03-01", 951868800},
              {"iso", "1969-12-31", -86400},
              {"iso", "2024-02-29T12:30:15", 1709209815},
              {"iso", "2024-02-29 12:30:15.25Z", 1709209815.25},
              {"iso", "2024-02-29T12:30+01:00", 1709206200},
              {"iso", "2024-02-29T12:30-0330", 1709222400},
              {"%d.%m.%Y", "29.2.2024", 1709164800},
              {"%m/%d/%y", "02/29/24", 1709164800},
              {"%d-%b-%Y", "29-Feb-2024", 1709164800},
              {"%d %B %Y %H:%M", "1 march 2000 06:00", 951890400},
              {"%Y%m%d", "20240229", 1709164800},
              {"%H:%M:%S", "01:00:01", 3601}};
  static const struct {
    const char *format, *text;
  } bad[] = {{"iso", "2023-02-29"},      {"iso", "2024-13-01"},       {"iso", "2024-1-01"},
             {"iso", "2024-01-01x"},     {"iso", "2024-01-01T25:00"}, {"iso", ""},
             {"%d.%m.%Y", "2024-01-01"}, {"%d.%m.%Y", "31.4.2024"},   {"%d-%b-%Y", "1-Foo-2024"}};
  double x;
  for (size_t i = 0; i < countof(good); i++) {
    if (!date_parse(good[i].text, strlen(good[i].text), good[i].format, &x))
      fail_msg("%s is refused", good[i].text);
    if (x != good[i].seconds) fail_msg("%s is %.3f", good[i].text, x);
  }
  for (size_t i = 0; i < countof(bad); i++)
    if (date_parse(bad[i].text, strlen(bad[i].text), bad[i].format, &x))
      fail_msg("%s is %.0f", bad[i].text, x);
}

// -- sources ------------------------------------------------------------------------------------

static DataSource csv(const char *path, int64_t first, int64_t last) {
  return (DataSource){
      .kind = SOURCE_CSV, .path = path, .first = first, .last = last, .header = -1, .scale = 1};
}

// How the rows of a source are read: all at once, as one of three ranks, or each when it is needed.
static const FeedInput ways[] = {{.part = 0}, {.part = 1, .parts = 3}, {.keep = 1}};

static void say_all(void) { diag_print(diag, stderr, false); }

// Expects rows * n numbers from a source, however it is read.
static void expect(const DataSource *s, int64_t n, int64_t rows, const double *want) {
  for (size_t k = 0; k < countof(ways); k++) {
    FeedInput in = ways[k];
    in.name = "x", in.type = TYPE_F64, in.rank = 2, in.size[0] = rows, in.size[1] = n,
    in.source = s;
    Feed *f = feed_open(1, &in, rows, false, 1, true, directory, diag);
    const void *data[1];
    if (!f) say_all();
    assert_non_null(f);
    assert_int_equal(feed_rows(f), rows);
    assert_int_equal(feed_next(f, data), rows);
    for (int64_t i = 0; i < rows * n; i++) {
      double got = ((const double *)data[0])[i];
      if (got != want[i])
        fail_msg("way %zu, element %d is %.17g, not %.17g", k, (int)i, got, want[i]);
    }
    feed_close(f);
  }
}
#define EXPECT(source, n, ...)                                                                     \
  do {                                                                                             \
    static const double want_[] = {__VA_ARGS__};                                                   \
    expect(source, n, (int64_t)countof(want_) / (n), want_);                                       \
  } while (0)

static void expect_refused(const DataSource *s, int64_t n, const char *says) {
  FeedInput in = {.name = "x", .type = TYPE_F64, .rank = 2, .size = {1, n}, .source = s};
  assert_null(feed_open(1, &in, 1, false, 1, true, directory, diag));
  expect_said(says);
  again();
}

static void separators(void **state) {
  (void)state;
  DataSource s = csv("t.csv", 0, 2);
  put_text("t.csv", "a;b\n1;2\n3;4,5\n");
  s.decimal = ",";
  EXPECT(&s, 2, 1, 2, 3, 4.5);
  s.decimal = NULL;
  expect_refused(&s, 2, "t.csv:3: column 1: '4,5' is not a number");
  put_text("t.csv", "a;b\n1;4,5\n");
  expect_refused(&s, 2, "decimal = \",\" reads numbers");
  put_text("t.csv", "1\t2\n3\t 4 \r\n");
  EXPECT(&s, 2, 1, 2, 3, 4);
  put_text("t.csv", "1|2\n3|4\n");
  EXPECT(&s, 2, 1, 2, 3, 4);
  put_text("t.csv", "1:2\n3:4\n");
  expect_refused(&s, 2, "separator = \";\"");
  s.separator = ":";
  EXPECT(&s, 2, 1, 2, 3, 4);
  put_text("t.csv", "\"x;y\",b\n1,2\n");
  s.separator = NULL;
  EXPECT(&s, 2, 1, 2);
}

// The file decides whether it has a header: all sources of it count the same rows.
static void headers(void **state) {
  (void)state;
  DataSource number = csv("t.csv", 1, 2), text = csv("t.csv", 0, 1);
  number.separator = text.separator = ";";
  number.decimal = ",";
  text.classes = CLASSES_LISTED;
  text.class_list = "red\nblue\ncolour\n";
  put_text("t.csv", "colour;length\nred;1,5\nblue;NA\nred;2,5\n");
  number.missing = MISSING_VALUE;
  EXPECT(&number, 1, 1.5, 0, 2.5);
  EXPECT(&text, 1, 0, 1, 0);
  put_text("t.csv", "colour;day\nred;03.05.2010\nblue;04.05.2010\n");
  EXPECT(&text, 1, 0, 1);
  put_text("t.csv", "red;1,5\nblue;2,5\n");
  EXPECT(&text, 1, 0, 1);
  EXPECT(&number, 1, 1.5, 2.5);
  put_text("t.csv", "colour\nred\n"); // nothing tells
  EXPECT(&text, 1, 2, 0);
  text.header = 1;
  EXPECT(&text, 1, 0);
  put_text("t.csv", "red;-inf\nblue;2,5\n"); // not the name of a column
  expect_refused(&number, 1, "-inf");
}

static void columns(void **state) {
  (void)state;
  DataSource s = csv("t.csv", -1, -1);
  s.columns = "c\na b\n";
  put_text("t.csv", "\"a b\", b,c\n1,x,3\n4,\"y\n,\"\"z\",6\n");
  EXPECT(&s, 2, 3, 1, 6, 4);
  s.columns = "c\nd\n";
  expect_refused(&s, 2, "no column \"d\"");
  s.columns = "c\nc\n";
  expect_refused(&s, 2, "named twice");
  s = csv("t.csv", COLUMNS_NUMBERED, 0);
  s.columns = "2\n0\n";
  EXPECT(&s, 2, 3, 1, 6, 4);
  s.columns = "3\n";
  expect_refused(&s, 1, "column 3 is asked for, but");
  s.columns = "-1\n"; // of a damaged package
  expect_refused(&s, 1, "column -1 is asked for, but");
}

static void packed_and_several(void **state) {
  (void)state;
  DataSource s = csv("t.csv.gz", 0, 1);
  put_gzip("t.csv.gz", "a,b\n1,2\n3,4\n5,6\n", 16);
  FeedInput in = {
      .name = "x", .type = TYPE_F64, .rank = 2, .size = {1, 1}, .source = &s, .keep = 1};
  assert_null(feed_open(1, &in, 1, false, 1, true, directory, diag)); // too large for the table
  again();
  in = (FeedInput){.name = "x", .type = TYPE_F64, .rank = 2, .size = {1, 1}, .source = &s};
  Feed *f = feed_open(1, &in, 1, false, 1, true, directory, diag);
  assert_int_equal(feed_rows(f), 3);
  feed_close(f);
  put_text("p1.csv", "a,b\n1,2\n");
  put_text("p2.csv", "b;a\n4;3\n6;5\n");
  put_text("p3.csv", "\xef\xbb\xbf"
                     "a,b\r\n7,8");
  s = csv("p?.csv", -1, -1);
  s.key = "a";
  EXPECT(&s, 1, 1, 3, 5, 7);
  s.row_first = 1, s.row_last = 3;
  EXPECT(&s, 1, 3, 5);
  s.path = "q*.csv";
  expect_refused(&s, 1, "no file matches");
}

static void missing_values(void **state) {
  (void)state;
  DataSource s = csv("t.csv", 0, 2);
  put_text("t.csv", "a,b,c\n1,,x\nNA,2,y\n6,\"\",z\n5,8,w\n");
  expect_refused(&s, 2, "t.csv:2: column 1: the value is missing");
  s.missing = MISSING_VALUE, s.fill = -1;
  EXPECT(&s, 2, 1, -1, -1, 2, 6, -1, 5, 8);
  s.missing = MISSING_MEAN;
  EXPECT(&s, 2, 1, 5, 4, 2, 6, 5, 5, 8);
  s.missing = MISSING_MASK;
  EXPECT(&s, 2, 1, 0, 0, 1, 1, 0, 1, 1);
  s.missing = MISSING_DROP;
  EXPECT(&s, 2, 5, 8);
  put_text("t.csv", "a,b\n1,\n2,?\n");
  s.missing = MISSING_MEAN;
  expect_refused(&s, 2, "column 1 \"b\" has no value, so it has no mean");
}

static void dropped_for_all(void **state) {
  (void)state;
  DataSource x = csv("t.csv", 0, 1), y = csv("t.csv", 1, 2);
  put_text("t.csv", "1,10\n,20\n3,30\n4,\n5,50\n6,60\n");
  x.missing = y.missing = MISSING_DROP;
  FeedInput in[2] = {{.name = "x", .type = TYPE_I32, .rank = 1, .size = {4}, .source = &x},
                     {.name = "y", .type = TYPE_I32, .rank = 1, .size = {4}, .source = &y}};
  Feed *f = feed_open(2, in, 4, true, 3, true, directory, diag);
  const void *data[2];
  assert_non_null(f);
  assert_int_equal(feed_rows(f), 4);
  assert_int_equal(feed_next(f, data), 4);
  int sum = 0;
  for (int i = 0; i < 4; i++) {
    assert_int_equal(((const int *)data[1])[i], 10 * ((const int *)data[0])[i]);
    sum += ((const int *)data[0])[i];
  }
  assert_int_equal(sum, 1 + 3 + 5 + 6);
  feed_close(f);
}

static void classes(void **state) {
  (void)state;
  DataSource s = csv("t.csv", 1, 2);
  put_text("t.csv", "x,kind\n1,dog\n2,cat\n3,\"dog\"\n4,ant\n");
  s.classes = CLASSES_AUTO;
  EXPECT(&s, 1, 2, 1, 2, 0);
  s.classes = CLASSES_LISTED, s.class_list = "dog\ncat\nant\n";
  EXPECT(&s, 1, 0, 1, 0, 2);
  s.class_list = "dog\ncat\n";
  expect_refused(&s, 1, "t.csv:5: column 1: 'ant' is none of the classes");
  put_text("t.csv", "10\n9\n10\n");
  s = csv("t.csv", 0, 1);
  s.classes = CLASSES_AUTO;
  EXPECT(&s, 1, 1, 0, 1);
  static const char *const names[] = {"9"};
  FeedInput in = {.name = "x",
                  .type = TYPE_I32,
                  .rank = 1,
                  .size = {1},
                  .source = &s,
                  .facts = &(SourceFacts){.input = "x", .nclasses = 1, .class_name = names}};
  assert_null(feed_open(1, &in, 1, false, 1, true, directory, diag));
}

static void date_columns(void **state) {
  (void)state;
  DataSource s = csv("t.csv", 0, 2);
  put_text("t.csv", "day,n\n1970-01-02,5\n2000-01-01T12:00,6\n");
  s.date = "iso";
  EXPECT(&s, 2, 1, 5, 10957.5, 6);
  s.since = 946684800;
  EXPECT(&s, 2, -10956, 5, 0.5, 6);
  s.seconds = true;
  EXPECT(&s, 2, -946598400, 5, 43200, 6);
  put_text("t.csv", "day,n\n1970-01-02,5\n2000-01-41,6\n");
  expect_refused(&s, 2, "t.csv:3: column 0: '2000-01-41' is no date and no number");
}

// Rows of many pieces, with quotes, read in shuffled order in every way.
static void large_files(void **state) {
  (void)state;
  enum { ROWS = 60000 };
  FILE *f = fopen(path_of("big.csv"), "wb");
  fputs("n,text,half\n", f);
  for (int i = 0; i < ROWS; i++)
    fprintf(f, i % 7 ? "%d,plain text of row %d,%g\n" : "%d,\"a \"\"quoted\"\"\n, text %d\",%g\n",
            i, i, i * 0.5);
  fclose(f);
  DataSource s = csv("big.csv", COLUMNS_NUMBERED, 0);
  s.columns = "2\n0\n";
  for (size_t k = 0; k < countof(ways); k++) {
    FeedInput in = ways[k];
    in.name = "x", in.type = TYPE_F64, in.rank = 2, in.size[0] = 100, in.size[1] = 2,
    in.source = &s;
    Feed *feed = feed_open(1, &in, 100, true, 1, true, directory, diag);
    assert_non_null(feed);
    assert_int_equal(feed_rows(feed), ROWS);
    const void *data[1];
    double sum = 0;
    for (int64_t n; (n = feed_next(feed, data)) > 0;)
      for (int64_t i = 0; i < n; i++) {
        const double *row = (const double *)data[0] + 2 * i;
        assert_true(row[0] == row[1] * 0.5);
        sum += row[1];
      }
    assert_true(sum == (double)ROWS * (ROWS - 1) / 2);
    feed_close(feed);
  }
}

static void unclosed_quotes(void **state) {
  (void)state;
  DataSource s = csv("t.csv", 0, 1);
  put_text("t.csv", "1,2\n3,\"4\n5,6\n");
  expect_refused(&s, 1, "t.csv:2: a quoted field does not end");
  put_text("t.csv", "1,2\n3,\"4\"x\n5,6\n");
  expect_refused(&s, 1,
                 "t.csv:2: a quoted field does not end at its closing quote: 'x' follows it");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(numbers_as_strtod),
      TEST(no_numbers),
      TEST(dates),
      TEST(headers),
      TEST(separators),
      TEST(columns),
      TEST(packed_and_several),
      TEST(missing_values),
      TEST(dropped_for_all),
      TEST(classes),
      TEST(date_columns),
      TEST(large_files),
      TEST(unclosed_quotes),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
