"""CSL's libraries, written by us from their documented interfaces; `@import_module("<math>")` reads math.csl here."""
