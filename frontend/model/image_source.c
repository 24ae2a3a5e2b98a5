// Reads the arguments of images(...) in a data block into its DataSource.
#include "frontend/model/blocks_internal.h"
#include "frontend/model/formal_internal.h"

#include <string.h>

static bool set_resize(Build *b, const Ast *e, DataSource *s) {
  ImageSpec *i = &s->image;
  i->resize = RESIZE_NONE;
  if (e->kind == AST_NAME && !strcmp(e->text, "none")) return true;
  i->resize = RESIZE_COVER;
  if (e->kind == AST_NAME && !strcmp(e->text, "cover")) return true;
  bool both = e->kind == AST_LIST;
  i->resize = both ? RESIZE_EXACT : RESIZE_SHORTER;
  if (!both)
    return build_integer(b, e, &i->height) &&
           range_ok(b, e->pos, "images", "resize", (double)i->height);
  if (e->nargs == 2)
    return build_integer(b, e->args[0].value, &i->height) &&
           build_integer(b, e->args[1].value, &i->width) &&
           range_ok(b, e->pos, "images", "resize", (double)i->height) &&
           range_ok(b, e->pos, "images", "resize", (double)i->width);
  diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
             "resize is cover, none, the pixels of the shorter side, or (height, width)");
  return diag_hint(b->d, "write resize = 256, or resize = (72, 96)");
}

static const Form crops[] = {
    {"center", CROP_CENTER, (const Formal[]){END}},
    {"random", CROP_RANDOM, (const Formal[]){D(area, 0), END}},
};

static bool set_crop(Build *b, const Ast *e, DataSource *s) {
  double v[1] = {0};
  const Form *crop = form_of(e, countof(crops), crops);
  if (!crop) {
    form_unknown(b, e, countof(crops), crops, DIAG_BAD_BLOCK, "a part of an image");
    return false;
  }
  if (!call_numbers(b, e, crop->formal, v)) return false;
  s->image.area = v[0];
  s->image.crop = v[0] > 0 ? CROP_AREA : (CropRule)crop->kind;
  return true;
}

// Functions that read a number, an integer.
#define NUMBER(name)                                                                               \
  static bool set_##name(Build *b, const Ast *e, DataSource *s) {                                  \
    return build_number(b, e, &s->image.name) &&                                                   \
           range_ok(b, e->pos, "images", #name, s->image.name);                                    \
  }
#define INTEGER(name)                                                                              \
  static bool set_##name(Build *b, const Ast *e, DataSource *s) {                                  \
    return build_integer(b, e, &s->image.name) &&                                                  \
           range_ok(b, e->pos, "images", #name, (double)s->image.name);                            \
  }
NUMBER(flip)
NUMBER(flip_vertical)
NUMBER(brightness)
NUMBER(contrast)
NUMBER(saturation)
INTEGER(pad)
INTEGER(cutout)
INTEGER(draws)

const SourceArgument image_arguments[] = {{"resize", set_resize},
                                          {"crop", set_crop},
                                          {"pad", set_pad},
                                          {"flip", set_flip},
                                          {"flip_vertical", set_flip_vertical},
                                          {"brightness", set_brightness},
                                          {"contrast", set_contrast},
                                          {"saturation", set_saturation},
                                          {"cutout", set_cutout},
                                          {"draws", set_draws},
                                          {NULL, NULL}};

bool images_check(Build *b, const DataSource *s) {
  const ImageSpec *i = &s->image;
  if (i->pad && i->crop != CROP_RANDOM)
    return diag_error(b->d, DIAG_BAD_BLOCK, s->pos,
                      "pad is for a part at a random place: add crop "
                      "= random");
  if (i->resize != RESIZE_COVER && i->crop == CROP_AREA)
    return diag_error(b->d, DIAG_BAD_BLOCK, s->pos,
                      "a part of random area is resized to the input: leave out resize");
  return true;
}

bool images_drawn(const DataSource *s) {
  const ImageSpec *i = &s->image;
  return i->crop != CROP_CENTER || i->flip > 0 || i->flip_vertical > 0 || i->brightness > 0 ||
         i->contrast > 0 || i->saturation > 0 || i->cutout > 0;
}
