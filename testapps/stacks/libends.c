/* Calls a function of the program in its destructor, when the process ends. */

void (*ends_by)(void);

__attribute__((destructor)) static void ends(void) {
  if (ends_by) ends_by();
}
