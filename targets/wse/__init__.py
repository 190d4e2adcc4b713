"""The wafer target: CSL programs for a mesh of processing elements, checked and simulated, and models compiled to them.

`csl` reads and evaluates CSL, `mesh` runs it, `host` is for scripts, `chip` the machine files: these know nothing of
the tensor compiler beyond spans, diagnostics and machine files. `target` and the modules beside it compile models:
where values lie (`placement`), what is done stage by stage (`stages`), in which arrays (`buffers`), as which text
(`emit*`). They meet the rooms above like anybody else: by CSL texts (`compiled`) and a simulation (`simulate`).
"""
