"""The grammars of the languages (`tdsl`, `rules`), LALR, as files for Lark."""
