"""What both adapters share, without TVM: task scheduler, run, measurer, workers, confirmation, comparison, journal, progress."""
