/* The inner library of chain: has another number in the frame pointer register when it calls.
 *
 * build: -fomit-frame-pointer -fno-optimize-sibling-calls */

#if defined(__aarch64__)
#define FRAME_POINTER "x29"
#else
#define FRAME_POINTER "rbp"
#endif

int chain_inner(int (*function)(void *), void *argument) {
  register long kept __asm__(FRAME_POINTER) = (long)argument ^ 0x5555;
  __asm__ volatile("" : "+r"(kept));
  const int answer = function(argument);  // inner
  __asm__ volatile("" : "+r"(kept));
  return answer + (kept == 1);
}
