// Parts that all pages share: escaped text, the head with styles for light and dark, the end.
#include "frontend/report/explain.h"

#include <string.h>

static const char style[] =
    ":root{--bg:#fff;--fg:#1c2a33;--dim:#607d8b;--line:#cfd8dc;--edge:#90a4ae;--panel:#f6f8f9;--"
    "accent:#1565c0;--fwd:#d84315;--bwd:#7b1fa2;"
    "--c0:#eceff1;--c1:#bbdefb;--c2:#c8e6c9;--c3:#ffe0b2;--c4:#e1bee7;--c5:#b2ebf2;--c6:#f8bbd0;--"
    "c7:#dcedc8}\n"
    "@media "
    "(prefers-color-scheme:dark){:root{--bg:#11181d;--fg:#e0e6ea;--dim:#90a4ae;--line:#37474f;--"
    "edge:#607d8b;--panel:#1a242b;--accent:#64b5f6;"
    "--fwd:#ff8a65;--bwd:#ce93d8;--c0:#2b363d;--c1:#123c63;--c2:#1d4a27;--c3:#5a3a10;--c4:#46245a;-"
    "-c5:#0d4a52;--c6:#5c2340;--c7:#3a4d1c}}\n"
    "body{font:14px/1.45 sans-serif;margin:2em auto;max-width:100em;padding:0 "
    "1em;background:var(--bg);color:var(--fg)}\n"
    "h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid "
    "var(--line)}h3{font-size:1em}small,.dim{color:var(--dim)}\n"
    "a{color:var(--accent);text-decoration:none}table{border-collapse:collapse;font:12.5px "
    "monospace}p{max-width:70em}\n"
    "td,th{padding:2px 10px;text-align:left;vertical-align:top}th{border-bottom:1px solid "
    "var(--line)}th.by{cursor:pointer}\n"
    "td.n{text-align:right;white-space:nowrap}td.why{font-family:sans-serif;color:var(--dim);min-"
    "width:18em}tr.collective{background:var(--c3)}tr:target,tr.on{background:var(--c6)}\n"
    "tbody "
    "tr:hover{background:var(--panel)}tr.value{cursor:pointer}.scroll{overflow:auto;max-height:"
    "32em}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:.6em}.tile{background:var(--panel);border:1px solid "
    "var(--line);padding:.4em .9em;border-radius:6px}\n"
    ".tile b{display:block;font-size:1.25em}\n"
    "svg{font:11px monospace;display:block;max-width:100%}svg "
    "text{fill:var(--fg)}polyline{fill:none;stroke:var(--accent);stroke-width:1.5}\n"
    "polygon{fill:var(--c1)}line{stroke:var(--dim)}path.e{fill:none;stroke:var(--edge);stroke-"
    "width:1.2}path.move{stroke:var(--fwd);stroke-width:2}\n"
    "svg text.f{fill:var(--fwd)}svg text.b{fill:var(--bwd)}svg "
    "text.s{fill:var(--dim)}rect{stroke:var(--dim)}rect.band{fill:var(--c2);stroke:none}\n"
    "rect.op{fill:var(--bg);stroke:var(--edge)}svg "
    "text.h{font-weight:bold}circle{fill:var(--accent)}path.nan{stroke:#d32f2f;stroke-width:2}rect."
    "ghost{stroke-dasharray:3 2}g.box{cursor:pointer}g.on "
    "rect{stroke:var(--accent);stroke-width:2.5}\n"
    ".c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}.c3{fill:var(--c3)}.c4{fill:var(--c4)"
    "}.c5{fill:var(--c5)}.c6{fill:var(--c6)}.c7{fill:var(--c7)}\n"
    ".key{display:inline-block;width:1em;height:1em;border:1px solid "
    "var(--dim);vertical-align:-2px}\n"
    ".mesh{display:inline-grid;gap:4px;margin:.3em 1em .3em 0;font:12px "
    "monospace;vertical-align:top}.mesh .axis{color:var(--dim);align-self:center}\n"
    ".cell{border:1px solid var(--dim);border-radius:4px;background:var(--panel);padding:3px "
    "6px;min-width:7em}\n"
    ".bar{position:relative;height:6px;background:var(--c0);margin:1px 0 3px}.bar "
    "i{position:absolute;top:0;bottom:0;background:var(--accent)}\n"
    "summary{cursor:pointer}input,select{font:13px "
    "monospace;background:var(--panel);color:var(--fg);border:1px solid var(--line);padding:2px "
    "4px;max-width:40em}\n";

// CSS styles of the drawings, and of the part of the page that stays visible while the page
// scrolls.
static const char style_of_parts[] =
    ".graph{position:relative;overflow:auto;margin:.5em 0;border:1px solid "
    "var(--line);border-radius:6px}.graph svg{max-width:none;margin:0 "
    "auto}.graph:focus{outline:2px solid var(--accent)}\n"
    ".graph.live{overflow:hidden}.graph.live "
    "svg{margin:0;width:100%;cursor:grab;touch-action:pan-y}.graph.live.moving "
    "svg{cursor:grabbing}\n"
    ".tools{display:flex;gap:6px;align-items:center;justify-content:flex-end;padding:3px "
    "6px;border-bottom:1px solid var(--line)}.tools small{margin-right:auto}\n"
    ".tools button{font:14px "
    "monospace;width:2em;background:var(--panel);color:var(--fg);border:1px solid "
    "var(--line);border-radius:4px;cursor:pointer}\n"
    // The mesh stays visible at the side of the page while the other parts scroll. On a narrow page
    // it stays at the top, in at most a third of the height.
    ".beside{display:grid;grid-template-columns:minmax(0,1fr) "
    "fit-content(19em);column-gap:1.5em}.held select{max-width:100%}.held "
    ".mesh{font-size:11px}.held "
    ".cell{min-width:5.5em}.beside>div{grid-row:1;grid-column:1;min-width:0}\n"
    ".beside>.held{grid-column:2;position:sticky;top:0;align-self:start;max-height:100vh;overflow:"
    "auto;padding-bottom:.5em;background:var(--bg)}\n"
    "@media "
    "(max-width:65em){html{scroll-padding-top:36vh}.beside{display:block}.beside>.held{z-index:2;"
    "max-height:33vh;border-bottom:1px solid var(--line)}\n"
    ".held h2{margin:.2em 0;border:none}.held p{margin:.3em 0}.held "
    ".mesh{font-size:10px;gap:2px}.held .cell{min-width:4em;padding:0 3px}.held "
    ".bar{height:3px;margin:0 0 1px}.held small{font-size:.8em}}\n"
    "@media (max-width:65em) and "
    "(max-height:24em){html{scroll-padding-top:0}.beside>.held{position:static;max-height:none}}\n"
    "@media "
    "print{.beside{display:block}.beside>.held{position:static;max-height:none}.tools{display:none}"
    "}\n";

void html_text(FILE *f, const char *text) {
  static const char *const entity[256] = {
      ['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;", ['\''] = "&#39;"};
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (entity[c])
      fputs(entity[c], f);
    else
      fputc(c < 0x20 && c != '\n' && c != '\t' ? ' ' : c, f);
  }
}

void html_in(FILE *f, const char *before, const char *text, const char *after) {
  fputs(before, f);
  html_text(f, text);
  fputs(after, f);
}

void html_number(FILE *f, double sort, const char *text) {
  fprintf(f, "<td class=\"n\" data-n=\"%.17g\">%s</td>", sort, text);
}

void html_table(FILE *f, const char *attributes, const char *heads) {
  fprintf(f, "<table%s><thead><tr>", attributes);
  for (const char *at = heads; *at; at += *at == '|') {
    size_t n = strcspn(at, "|");
    fprintf(f, "<th>%.*s</th>", (int)n, at);
    at += n;
  }
  fprintf(f, "</tr></thead>\n<tbody>\n");
}

void html_table_end(FILE *f) { fprintf(f, "</tbody></table>\n"); }

void html_head(FILE *f, const char *title) {
  fprintf(f, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>");
  html_in(f, "<title>", title, "</title>");
  fprintf(f, "<style>\n%s%s</style></head><body>\n", style, style_of_parts);
  html_in(f, "<h1>", title, "</h1>\n");
}

void html_end(FILE *f) { fprintf(f, "</body></html>\n"); }
