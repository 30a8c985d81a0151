"""``python -m autotvm_opevo``."""

from autotvm_opevo.cli.main import main

raise SystemExit(main())
