# A host function of CuPy's waits for an event that the main thread sets only when the stream has come to an end.
# code: LG207
# culprit: cuLaunchHostFunc.*
# needs: cupy
import threading

import cupy

saved = threading.Event()
stream = cupy.cuda.Stream(non_blocking=True)
stream.launch_host_func(lambda event: event.wait(), saved)
stream.synchronize()
saved.set()
