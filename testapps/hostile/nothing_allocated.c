/* A program without CUDA that has the C library's names for itself: an allocator that main starts and an exit handler ends, an `environ` that is no list, and
 * a `getenv` that nobody else calls.
 *
 * bare and guarded: prints the same lines, exit 0; exit 9 where something is asked for outside main. */
#include <stddef.h>
#include <string.h>

int atexit(void (*)(void));
long write(int, const void *, size_t);
_Noreturn void _exit(int);
struct { double temperature; int humidity; } environ = {21.5, 40};
static char arena[1 << 16];
static size_t used;
static int runs;

static void *take(size_t size) {
  if (!runs) _exit(9);
  void *taken = arena + used;
  used += (size + 15) & ~(size_t)15;
  return taken;
}

void *malloc(size_t size) { return take(size); }
void *calloc(size_t count, size_t size) { return take(count * size); }
void *realloc(void *old, size_t size) { return old == NULL ? take(size) : old; }
void free(void *old) {
  if (old != NULL && !runs) _exit(9);
}
char *getenv(const char *name) {
  (void)name;
  _exit(9);
}

static void stop(void) { runs = 0; }

int main(void) {
  runs = 1;
  atexit(stop);
  char *text = malloc(100);
  strcpy(text, environ.temperature == 21.5 && environ.humidity == 40 ? "the program's own\n" : "something else\n");
  return write(1, text, strlen(text)) < 0;
}
