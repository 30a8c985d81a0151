"""CPU targets of different vectors, as both versions of TVM understand them."""

# Each with the bundled tuning records for it.
PRIOR_FILES = [
    ("llvm", "avx2_prior.json"),
    ("llvm -mcpu=core-avx2", "avx2_prior.json"),
    ("llvm -mcpu=skylake-avx512", "avx512_prior.json"),
    ("llvm -mtriple=aarch64-linux-gnu -mattr=+neon", "avx2_prior.json"),
]
