/* The nine symbols of libcuda.so.1 that TVM 0.17 links, forwarded to the NVIDIA driver if there is one.
 *
 * Without a driver they would keep TVM's library from being loaded, although nothing calls them. Here each returns
 * CUDA_ERROR_NO_DEVICE then, which TVM reports as a missing device.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#define CUDA_ERROR_NO_DEVICE 100

typedef int CUresult;

static void *driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_driver(void) { driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

static void *find(const char *name) {
  pthread_once(&once, open_driver);
  return driver ? dlsym(driver, name) : NULL;
}

/* FORWARD(name, (parameters), (arguments)): a function named like the driver's that looks up the driver's once. */
#define FORWARD(name, parameters, arguments)          \
  CUresult name parameters {                          \
    static CUresult(*real) parameters;                \
    if (!real) *(void **)(&real) = find(#name);       \
    return real ? real arguments : CUDA_ERROR_NO_DEVICE; \
  }

FORWARD(cuDeviceGetName, (char *name, int length, int device), (name, length, device))
FORWARD(cuFuncSetAttribute, (void *function, int attribute, int value), (function, attribute, value))
FORWARD(cuLaunchKernel,
        (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
         void *stream, void **parameters, void **extra),
        (function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra))
FORWARD(cuMemsetD32_v2, (unsigned long long pointer, unsigned value, size_t count), (pointer, value, count))
FORWARD(cuModuleGetFunction, (void **function, void *module, const char *name), (function, module, name))
FORWARD(cuModuleGetGlobal_v2, (unsigned long long *pointer, size_t *bytes, void *module, const char *name),
        (pointer, bytes, module, name))
FORWARD(cuModuleLoadData, (void **module, const void *image), (module, image))
FORWARD(cuModuleUnload, (void *module), (module))

/* TVM prints an error's name, also without a driver that knows it. */
CUresult cuGetErrorName(CUresult error, const char **name) {
  static CUresult (*real)(CUresult, const char **);
  if (!real) *(void **)(&real) = find("cuGetErrorName");
  if (real) return real(error, name);
  *name = error == CUDA_ERROR_NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
