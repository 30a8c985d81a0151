"""What both adapters share, without TVM: task scheduler, session, workers, confirmation, comparison, journal, progress."""
