// The machine's physical limits, measured in the run that uses them.
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

// Multiply-adds in registers on `threads` threads: flops a second, f32, best of several short runs.
double peak_flops(int threads);
// Copy between two arrays of 64 MiB on `threads` threads: bytes read plus bytes written a second.
double peak_copy(int threads);
// Seconds on a clock that never runs back.
double now(void);

#endif
