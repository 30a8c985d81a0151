"""What the adapters of both TVMs share and neither owns. Knows no TVM."""
