"""``python -m autotvm_opevo``."""

from autotvm_opevo.cli import main

raise SystemExit(main())
