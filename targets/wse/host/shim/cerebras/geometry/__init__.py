"""Part of the host interface that `tdslc csl exec` puts on the path of a script."""
