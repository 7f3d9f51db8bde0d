/* The inner library of chain: has another number in the frame pointer register when it calls.
 *
 * build: -fomit-frame-pointer -fno-optimize-sibling-calls */

int chain_inner(int (*function)(void *), void *argument) {
  register long kept __asm__("rbp") = (long)argument ^ 0x5555;
  __asm__ volatile("" : "+r"(kept));
  const int answer = function(argument);  // inner
  __asm__ volatile("" : "+r"(kept));
  return answer + (kept == 1);
}
