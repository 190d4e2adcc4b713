"""The host's side of CSL programs: the command line of `cslc`. Must not know the insides of the front end."""
