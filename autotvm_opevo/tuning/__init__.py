"""What both adapters share. Imports no TVM."""
