// Intel MKL, in the wheel of PyTorch, takes AVX2 kernels on processors of AMD. Preloaded, this
// library makes it take AVX-512 kernels there: bench/run builds and preloads it on AMD, so that the
// peer is at its best.
int mkl_serv_intel_cpu_true(void) { return 1; }
int mkl_serv_intel_cpu(void) { return 1; }
