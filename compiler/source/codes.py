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
    "E0006": Code("A bracket is never closed, or closes nothing.", "Close it, or take it out."),
    "E0007": Code("A line is indented as no block is.", "Indent every line of a block with the same blanks."),
    "E0008": Code(
        "A character or string that the language does not have.", "Close the string, or write what is meant."
    ),
    "E0009": Code("A statement is malformed.", "Mend what the message names; docs/language.md has the grammar."),
    "E0010": Code("An expression, block or call is nested too deeply.", "Give its parts names, one statement each."),
    # E01xx: names and types in the model language
    "E0101": Code("A name stands for nothing.", "Define or import it; the help line has the nearest."),
    "E0102": Code("A name is defined twice, or cannot be defined there.", "Choose another name."),
    "E0103": Code("A module cannot be found.", "It lies beside the importing file or in the standard library."),
    "E0104": Code("Files import each other in a circle.", "Move what both need into a third file."),
    "E0105": Code(
        "A file holds no model, or not the one named.", "Write `model name(...) -> ...:`, or name one of several."
    ),
    "E0106": Code("A call has too few, too many or unknown arguments.", "The help line shows the signature."),
    "E0107": Code("A value is of a kind that cannot stand there.", "Give what the message asks for."),
    "E0108": Code("Shapes do not fit each other.", "Reshape, transpose or broadcast one of them."),
    "E0109": Code("Dtypes do not fit; they never mix silently.", "Convert one tensor, as in `f32(x)`."),
    "E0110": Code("A fn returns something else than its header says.", "Mend the header or the return."),
    "E0111": Code("A value must be known at build and is not.", "Use a static value; `where` picks among tensors."),
    "E0112": Code("A fn calls itself, or calls are nested too deeply.", "Use `for` or `repeat`."),
    "E0113": Code("Two parameters have one full name.", 'Scope them with `as "name"`, or mark both `shared`.'),
    "E0114": Code("A `repeat` is misused.", "Carried names are tensors that keep their type; `yield` comes last."),
    "E0115": Code(
        "A model is larger than the compiler takes.", "Use `repeat` in the place of `for`, or smaller tensors."
    ),
    "E0116": Code(
        "A dim is unknown or out of its bounds.", "Choose a value within the bounds that the model declares."
    ),
    "E0117": Code("A dtype is unknown or not among its choices.", "Choose one that the model declares."),
    "E0118": Code("Arithmetic on static values fails.", "Mend the numbers: no division by zero, 64 bits."),
    "E0119": Code("An assertion of a fn does not hold.", "Call it with values that it takes."),
    "E0120": Code("An operation refuses its operands.", "Mend the axis, index or attribute the message names."),
    "E0121": Code("An `op fn` does what only a `fn` can.", "It takes tensors, returns tensors and has no parameters."),
    "E0122": Code("A value has no such attribute.", "Tensors have shape, dtype, rank and T."),
    "E0123": Code("A scope or message string cannot be filled in.", "`{name}` takes static values and loop indices."),
    # E02xx: graphs
    # E03xx: rules
    "E0301": Code("A rule is not written as rules are.", "rules/README.md has the syntax, with examples."),
    "E0302": Code("Two rules have one name.", "Rename one: reports and `--no-rule` speak of rules by name."),
    "E0303": Code(
        "A rule has no class, or an unknown one.", "Write `rule name @exact:`; rules/README.md has the classes."
    ),
    "E0304": Code("A rule names an op, function, trait or dtype that does not exist.", "Use one that does."),
    "E0305": Code("A rule uses a name to which its left side gives no value.", "Bind it on the left or by `let`."),
    "E0306": Code("A rule's side is not something that can be matched or built.", "Write ops applied to variables."),
    "E0307": Code(
        "A rule calls an op with operands or attributes it does not take.", "See the op's row in docs/ops.md."
    ),
    "E0308": Code("A name in a rule is never used, or is two things at once.", "Drop it, or rename one."),
    "E0309": Code("A rule is wrong: its sides differ on the tensors shown.", "Add a condition or the class suggested."),
    "E0310": Code("A rule never applied to any tensor that was tried.", "Loosen its conditions, or add `test` hints."),
    "E0311": Code("A rule's sides differ in dtype or shape.", "Add a condition on the dims or dtypes shown."),
    "E0312": Code("A rule to be switched off does not exist.", "`tdslc rules list` prints the names."),
    # E04xx: fit and capacity
    "E0401": Code("A kernel does not fit a chip.", "Use a chip with more fast memory, or a smaller dim."),
    "E0402": Code("A program does not fit the main memory.", "Use a chip with more memory, a smaller dim or dtype."),
    "E0410": Code(
        "A chip cannot run an op, even alone.", "Use another chip, a smaller dim, or another form of the op."
    ),
    # E05xx: machine files
    "E0501": Code("A machine file is not TOML.", "Mend the line shown; https://toml.io has the syntax."),
    "E0502": Code("A machine file or `--set` names a key the target lacks.", "Use one of the keys listed."),
    "E0503": Code("A machine file lacks a figure.", "Add it and its source; the shipped chip files show how."),
    "E0504": Code("A value of a machine file is of the wrong type.", "Write a value of the type named."),
    "E0505": Code("A figure of a machine file is out of range.", "Write a number within the range named."),
    "E0506": Code("A figure has no source.", 'Add one to [source]: `"dma.hbm_gbs" = "doc: where it stands"`.'),
    "E0507": Code(
        "A source is malformed or of no figure.",
        'Write `"key" = "kind: reason"`, the kind one of doc, measured, derived, guess.',
    ),
    "E0508": Code("A `--set` cannot be read.", "Write `--set key=value`, the value as in TOML."),
    "E0509": Code("A machine's name cannot name a folder.", "Use letters, digits, '.', '_' and '-'."),
    "E0510": Code("A value of a machine file is none of those known.", "Use one of those listed."),
    # E06xx: weights and inputs
    "E0601": Code("A weights file is not safetensors, or is damaged.", "Copy or download it again."),
    "E0602": Code(
        "A data file is a pickle or of another format.", "Save it as safetensors; pickles run code when read."
    ),
    "E0603": Code(
        "A weights file lacks tensors.", "Give them the names listed, or change the `as` scopes of the model."
    ),
    "E0604": Code("A tensor of a weights file does not fit its param.", "Make shapes and kinds of dtype agree."),
    "E0605": Code("Some tensors of a weights file are not used.", "Nothing, if the model is meant to leave them out."),
    "E0606": Code("A model with params was run without weights.", "Give `--weights FILE`, or `--weights random:0`."),
    "E0607": Code(
        "An `--input` cannot be read or is of no input.", "Write NAME=FILE or NAME=rand:SEED, a name listed."
    ),
    "E0608": Code("An input has no value.", "Give it with `--input`."),
    "E0609": Code("An input does not fit its type.", "Give a tensor of the shape and dtype named, or set `--dim`."),
    "E0610": Code("A NumPy file cannot be read.", "Save it again with numpy.save or numpy.savez."),
    "E0611": Code("An `--expect` cannot be compared.", "Name an output, and labels or values of its shape."),
    "E0612": Code("A data file has no tensor of that name.", "Write FILE:NAME, a name listed."),
    "E0613": Code("Weights are random.", "Nothing; give `--weights FILE` for outputs that mean something."),
    # E07xx: build folders, files written
    "E0701": Code("An output folder is there and is no build.", "Name another with `-o`, or remove it yourself."),
    "E0702": Code("A file or folder cannot be written.", "Name another, or free space and check permissions."),
    "E0703": Code("A build folder cannot be used.", "Build again; `run`, `report` and `diff` take whole builds."),
    "E0704": Code("A target is unknown.", "Use one of `tdslc targets`, as TARGET:CHIP or TARGET:FILE.toml."),
    "E0705": Code("A `--set` made no difference.", "Change the figure that the note names."),
    "E0706": Code("The optimised program was not better than the unfused one, which is used.", "Report it as a bug."),
    "E0707": Code("The search for equal forms ended at its budget.", "Raise it with `--budget`, or drop a rule named."),
    "E0708": Code("The command line cannot be read.", "See `tdslc COMMAND --help`."),
    "E0709": Code("tdslc failed.", "Report it, with the folder that the message names."),
    "E0710": Code("The command was interrupted.", "Nothing was left half done; run it again."),
    "E0711": Code("A `--budget` names no knob, or no count.", "Use one of the knobs listed, with a whole number."),
    # E08xx: numbers
    "E0801": Code("The program computes something else than the model.", "See which op and rule the message names."),
    "E0802": Code("A figure crossed the threshold of `--fail-if`.", "See `tdslc diff` for what changed."),
    # E09xx: hazards in simulated programs
    "E0901": Code("A program reads bytes that a copy under way still writes.", "Report it; a wait is missing."),
    "E0902": Code("A program overwrites bytes of a copy under way.", "Report it; a wait is missing."),
    "E0903": Code("A program reads bytes that nothing has written.", "Report it; a copy or a store is missing."),
    "E0904": Code("A program leaves its buffers.", "Report it; an address or a shape is wrong."),
    "E0905": Code("A program misuses a matrix unit.", "Report it; pushes, products and pops do not fit each other."),
    "E0906": Code(
        "A program ends with something left in a unit or under way.", "Report it; a pop or a wait is missing."
    ),
    "E0907": Code("A program waits for a copy that was never started.", "Report it; a wait is one too many."),
    # E10xx: CSL programs
    "E1001": Code("A CSL text is not written as CSL is.", "docs/csl.md has the syntax."),
    "E1002": Code("A CSL text is nested too deeply.", "Give parts of it names of their own."),
    "E1003": Code("A CSL name or builtin does not exist.", "Use one that does; a name near it is shown."),
    "E1004": Code("A CSL name is defined twice.", "Rename one."),
    "E1005": Code("A CSL library does not exist.", "docs/csl.md lists those that come with tdslc."),
    "E1006": Code("A CSL constant is defined by itself.", "Break the circle."),
    "E1007": Code("A param is not given, or not declared.", "Give it where the file is imported or placed."),
    "E1008": Code("A call has too many or too few arguments.", "Give as many as are declared."),
    "E1009": Code("A way through the code gives no value, or leaves no loop.", "Add the `else` or `return`."),
    "E1010": Code("A CSL value is of the wrong type.", "Convert it with @as, or change the type."),
    "E1011": Code("A member, field or setting does not exist or has no value.", "Use one of those listed."),
    "E1012": Code("An operator is not defined for these CSL types.", "Convert one side with @as."),
    "E1013": Code("A value has no type that a PE can hold.", "Give it a type: `: i16`, or @as(i16, ...)."),
    "E1014": Code("A number is out of range.", "Use one in the range shown, or a wider type."),
    "E1015": Code("A CSL variable is read before it has a value.", "Give it one where it is declared."),
    "E1016": Code("Something must be known when compiling and is not.", "Use constants and params for it."),
    "E1017": Code("Evaluation when compiling does not end.", "Check the loop or recursion shown."),
    "E1018": Code("A tensor access is not linear in its indices.", "Use sums and constant multiples of them."),
    "E1019": Code("An index is out of bounds or of another rank.", "Use as many as dimensions, each below its size."),
    "E1020": Code("A constant is assigned to, or something has no address.", "Declare it with `var`."),
    "E1021": Code("An assertion of the program does not hold.", "See the values shown."),
    "E1022": Code("A program prints while it is compiled.", "Nothing: this is what @comptime_print says."),
    "E1023": Code("An operand is not as wide as the operation.", "Use the operation for its width."),
    "E1024": Code("A builtin stands where it has no meaning.", "Move it where the message says."),
    "E1025": Code("A file has no layout, or one without a rectangle.", "Name the file with `layout { ... }`."),
    "E1030": Code("A color, queue or task id does not exist on the machine.", "Use one in the range shown."),
    "E1031": Code("A task is activated and bound to no id.", "Bind it in a comptime block."),
    "E1032": Code("A feature does not exist on the machine.", "Compile for the other one, or test @is_arch."),
    "E1033": Code("A color, queue, id or name is claimed twice.", "Give one of the two another."),
    "E1034": Code("A setting is missing or does not go with the others.", "Add or drop the one named."),
    "E1035": Code("A PE outside the rectangle is configured.", "Use coordinates below width and height."),
    "E1036": Code("A PE is given code twice.", "Call @set_tile_code once for each PE."),
    "E1037": Code("A PE of the rectangle has no code.", "Call @set_tile_code for each PE."),
    "E1038": Code("An exported symbol and its name in the layout do not agree.", "Make names and types equal."),
    "E1039": Code("A route or switch cannot be.", "See what the machine's routers can do."),
    "E1040": Code("A layout is too large.", "Use a smaller rectangle."),
    "E1041": Code("The variables of a PE do not fit into its memory.", "Spread the data over more PEs."),
    "E1042": Code("A PE sends a color to a neighbour that never takes it.", "Give the neighbour a route from there."),
    "E1043": Code("A color goes in a circle.", "Leave out one `.tx` of the circle."),
    "E1044": Code("A function that can call itself keeps variables in memory.", "Make them global, or write a loop."),
    "E1045": Code("The program is checked, but part of it cannot be run.", "Write it another way; see the message."),
    "E1050": Code("A command line of cslc cannot be read.", "docs/csl.md lists the options."),
    "E1051": Code("A folder holds no compiled CSL program.", "Compile the program into it with `cslc -o`."),
    "E1052": Code("The host asks a program for what it does not have.", "Ask for what the layout exports."),
    "E1053": Code("A script that is to run is not there.", "Name a run.py or a .sh file."),
    "E1054": Code("Regions that a script places do not fit together.", "Change the places, the ports or the routes."),
    "E1060": Code("Nothing on the mesh can move, and something still waits.", "Receive each word that is sent, once."),
    "E1061": Code(
        "Wavelets of one color come from two directions at once.", "Let one direction finish first, or use a switch."
    ),
    "E1062": Code("A program reads memory that it never wrote.", "Give the variable an initial value."),
    "E1063": Code("An index, pointer or DSD leaves its array.", "Check lengths, strides and offsets."),
    "E1064": Code("A queue, microthread or DSR is misused.", "One operation at a time on each; initialize queues."),
    "E1065": Code("Running programs on the mesh needs numba.", "pip install 'tdslc[wse]'."),
    "E1066": Code("A wavelet comes where nobody takes it.", "Follow the color's routes and bind a queue at their end."),
    "E1067": Code("An assertion of a running program does not hold.", "See the assertion shown."),
    "E1068": Code("A division by zero, or a shift by too much, in a running program.", "Test the operand before."),
    "E1069": Code("A program used up its budget of cycles.", "Look for a loop without end, or allow more cycles."),
    "E1070": Code("A running program does what its machine cannot.", "See the message."),
    # E11xx: models in other formats
    "E1101": Code("A package that reads the format is not installed.", "Install the extra that the message names."),
    "E1102": Code("A file is not a model of its format, or is damaged.", "Export, copy or download it again."),
    "E1103": Code("The data of a tensor lies in another file, which cannot be read.", "Put it beside the model."),
    "E1104": Code("The nodes of a graph do not fit together.", "Export the model again; its file was edited or cut."),
    "E1105": Code(
        "A model uses an operator or data type that tdslc, or the format written, lacks.",
        "Write or export it without, or cut the model there.",
    ),
    "E1106": Code("A node of a model does not fit its operands.", "See the node named; the exporter may be at fault."),
    "E1107": Code("A value must be known when a model is imported and is not.", "Give it with `--bind NAME=FILE.npy`."),
    "E1108": Code("A tensor of a model is too large.", "Use smaller dims."),
    "E1109": Code("A dim of a model's input is not fixed.", "Give it with `--dim NAME=SIZE`."),
    "E1110": Code("A model states another shape than its nodes make.", "Mend `--dim`, or export the model again."),
    "E1111": Code("A model is of an opset that tdslc does not read.", "Convert it with onnx.version_converter."),
    "E1112": Code("A `--bind` fits no input.", "Name an input of the model, with a value of its type."),
    "E1113": Code("A text is not written as StableHLO is.", "Give what `lowered.as_text()` or `stablehlo-opt` prints."),
    "E1114": Code("A module is larger than the compiler takes.", "Write repetition as a `stablehlo.while`."),
    "E1115": Code("A model has no input of the name given.", "Use one of the names listed."),
    "E1116": Code("The host cannot run a node that is not compiled.", "Install onnxruntime, or export without it."),
    "E1117": Code("No node of a model can be compiled.", "Build a model of which the target can run a part."),
    "E1118": Code("The host failed while a model ran, or gave another shape than stated.", "See the node and inputs."),
    "E1119": Code("A part of a model runs on the host.", "See the report for what crossing to it costs."),
    "E1120": Code(
        "A model with its weights is larger than a file of its format can be.", "Export it without `--weights`."
    ),
    "E1121": Code("A flag does not go with `--partition`.", "Leave it out, or build the model whole."),
}
