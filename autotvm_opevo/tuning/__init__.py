"""What both adapters share, without TVM: task scheduler, run, measurer, workers, race, comparison,
run log, progress.
"""
