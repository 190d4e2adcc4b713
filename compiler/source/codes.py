"""Every diagnostic code: what it says and what to do. The index behind `tdslc explain CODE`.

One row per code, in order; a room takes the next number of its group. A code keeps its meaning for ever: one that is
given up is not used again. A test checks that each code in the tree has a row and each row a use.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """What a code says, in one sentence, and how such a mistake is mended."""

    meaning: str
    fix: str


# One row a line; rows that do not fit on one line break after `Code(`.
CODES: dict[str, Code] = {
    # E00xx: source texts and syntax
    "E0001": Code("A file cannot be found or read.", "Check the path and its permissions."),
    "E0002": Code("A path names a folder, pipe or device where a file is needed.", "Name a regular file."),
    "E0003": Code("A file is binary where text is needed.", "Name a text; `--weights` and `--input` take data."),
    "E0004": Code("A text is not UTF-8.", "Save it as UTF-8."),
    "E0005": Code("A source text is larger than 16 MiB.", "Split it; large constants belong in a weights file."),
    # E01xx: names and types in the model language
    # E02xx: graphs
    # E03xx: rules
    # E04xx: fit and capacity
    # E05xx: machine files
    "E0501": Code("A machine file is not TOML.", "Mend the line shown; https://toml.io has the syntax."),
    "E0502": Code("A machine file or `--set` names a key the target lacks.", "Use one of the keys listed."),
    "E0503": Code("A machine file lacks a figure.", "Add it and its source; the shipped chip files show how."),
    "E0504": Code("A value of a machine file is of the wrong type.", "Write a value of the type named."),
    "E0505": Code("A figure of a machine file is out of range.", "Write a number within the range named."),
    "E0506": Code("A figure has no source.", 'Add one to [source]: `"mem.hbm_gbs" = "doc: where it stands"`.'),
    "E0507": Code(
        "A source is malformed or of no figure.",
        'Write `"key" = "kind: reason"`, the kind one of doc, measured, derived, guess.',
    ),
    "E0508": Code("A `--set` cannot be read.", "Write `--set key=value`, the value as in TOML."),
    "E0509": Code("A machine's name cannot name a folder.", "Use letters, digits, '.', '_' and '-'."),
    "E0510": Code("A value of a machine file is none of those known.", "Use one of those listed."),
    # E06xx: weights and inputs
    # E07xx: build folders, files written
    # E08xx: numbers
    # E09xx: hazards in simulated programs
}
