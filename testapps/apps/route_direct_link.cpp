// Route: the driver linked directly (-lcuda), legacy default stream.
//
// bare:    completes, prints "route ok 3"
// guarded: completes, same output, and both launches are recorded
// off:     completes, no verdict
#include "../common/route_job.hpp"

int main() {
  lg::Driver driver;
#define X(field, function, ...) driver.field = &::function;
  LG_ROUTE_FUNCTIONS(X)
  LG_ROUTE_STREAM_FUNCTIONS(X)
#undef X
  return lg::run_route_job(driver);
}
