"""Well-known networks, single operators and model files, in Relay (`relay`) and in Relax
(`relax`).
"""
