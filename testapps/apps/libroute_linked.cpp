// The plugin of route_deepbind and route_dlmopen: links the driver directly and does the job when asked.
#include "../common/route_job.hpp"

extern "C" int run_linked_route() {
  lg::Driver driver;
#define X(field, function, ...) driver.field = &::function;
  LG_ROUTE_FUNCTIONS(X)
  LG_ROUTE_STREAM_FUNCTIONS(X)
#undef X
  return lg::run_route_job(driver);
}
