"""What both adapters share: task scheduler, session, result, speedup, journal, progress. Imports no TVM."""
