"""The chips that come with the mxu target, one TOML file each; figures with units and sources."""
