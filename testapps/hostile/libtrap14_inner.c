/* The library that only a RUNPATH leads to. */
int inner_value(void) { return 14; }
