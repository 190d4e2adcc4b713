"""CSL: text, comptime evaluation, layout. `docs/csl.md` tells what is supported."""
