//! The tables of bad command lines. [`files`](super::files) makes the files that they name.

/// A command line, its exit status, and what its message contains: the thing at fault, and the remedy.
pub(super) type Bad = (&'static str, i32, &'static [&'static str]);

/// All tables, with their names.
pub(super) static TABLES: &[(&str, &[Bad])] = &[
    ("models", MODELS),
    ("limits", LIMITS),
    ("shapes", SHAPES),
    ("arrays", ARRAYS),
    ("pictures", PICTURES),
    ("labels", LABELS),
    ("outputs", OUTPUTS),
    ("signatures", SIGNATURES),
    ("options", OPTIONS),
    ("cases", CASES),
    #[cfg(feature = "gpu")]
    ("devices", DEVICES),
    #[cfg(not(feature = "gpu"))]
    ("no devices", NO_DEVICES),
    #[cfg(unix)]
    ("special files", SPECIAL_FILES),
];

static MODELS: &[Bad] = &[
    ("run none.tflite", 2, &["none.tflite: there is no such file", "built-in model", "lstm_128"]),
    ("bench ''", 2, &["'[MODEL]'", "a value is required"]),
    ("inspect notes.txt/m.tflite", 2, &["notes.txt/m.tflite: a part of this path is a file", "check the path"]),
    ("run empty.tflite", 3, &["empty.tflite: ", "the file is empty", "copy or download it again"]),
    ("bench cut.tflite -d cpu", 3, &["cut.tflite: ", "(300 bytes) is damaged or cut off", "fetch or convert it anew"]),
    ("inspect page.tflite", 3, &["page.tflite: not a TensorFlow Lite model", "download the file itself"]),
    ("dump graph bundle.task", 3, &["bundle.task: ", "a zip archive", "extract the .tflite file"]),
    ("diff model.h5 -d cpu", 3, &["model.h5: ", "an HDF5 (Keras) file", "convert it to .tflite"]),
    ("run notes.txt", 3, &["notes.txt: not a TensorFlow Lite model", "name a file that"]),
    ("run cat.png", 3, &["cat.png: ", "a picture, which is an input", "name the .tflite file as the model"]),
    ("run x.npy", 3, &["x.npy: ", "a .npy array, which is an input", "name the .tflite file as the model"]),
    ("run models", 2, &["models: this is a directory", "name a file in it, as models/relu.tflite"]),
    ("run saved", 2, &["saved: this is a directory", "convert it with TensorFlow Lite's converter"]),
    ("run nothing", 2, &["nothing: this is a directory", "name a .tflite file"]),
    ("run mismatched.tflite -d cpu", 3, &["mismatched.tflite is inconsistent", "operator 0 (ADD)", "convert it anew"]),
    ("inspect mismatched.tflite", 3, &["mismatched.tflite is inconsistent", "[2] and [3]", "convert it anew"]),
    (
        "run unknown.tflite -d cpu",
        4,
        &["unknown.tflite: 2 operators", "(NorThisOne)", "convert the model without them"],
    ),
    ("bench unknown.tflite -d cpu", 4, &["unknown.tflite: 2 operators", "convert the model without them"]),
    ("diff unknown.tflite -d cpu", 4, &["unknown.tflite: 2 operators", "convert the model without them"]),
    ("run lookup.tflite -d cpu", 3, &["lookup.tflite: ", "(GATHER)", "--input FILE gives others"]),
    ("zoo lstm_129 --out new.tflite", 2, &["no built-in model \"lstm_129\"", "there are: ", "lstm_128"]),
];

static LIMITS: &[Bad] = &[
    ("run huge.tflite -d cpu", 4, &["huge.tflite: ", "tensor 0 (\"x\")", "--limit-tensor-bytes"]),
    ("dump partition huge.tflite -d cpu", 4, &["huge.tflite: ", "tensor_bytes", "--limit-tensor-bytes"]),
    (
        "run relu.tflite -d cpu --limit-tensor-bytes 8",
        4,
        &["relu.tflite: ", "it takes 16 bytes", "--limit-tensor-bytes"],
    ),
    (
        "bench relu.tflite -d cpu --limit-operators 0",
        4,
        &["relu.tflite: ", "the limit operators is 0", "--limit-operators"],
    ),
    ("diff relu.tflite -d cpu --limit-arena-bytes 1", 4, &["relu.tflite: ", "arena_bytes is 1", "--limit-arena-bytes"]),
    ("run relu.tflite -d cpu --limit-multiply-adds 1", 4, &["relu.tflite: ", "it takes 4", "--limit-multiply-adds"]),
    (
        "run relu.tflite -d cpu -s 1,100000,100000,9",
        4,
        &["relu.tflite: ", "360000000000 bytes", "--limit-tensor-bytes"],
    ),
    ("run relu.tflite --limit-tensor-bytes many", 2, &["--limit-tensor-bytes", "a whole number from 0"]),
];

static SHAPES: &[Bad] = &[
    ("run add.tflite -d cpu -s x=3", 2, &["add.tflite does not take --shape x=3", "its own shapes are x=2"]),
    ("inspect add.tflite -s x=3", 2, &["add.tflite does not take --shape x=3", "its own shapes are x=2"]),
    ("dump graph add.tflite -s x=3", 2, &["add.tflite does not take --shape x=3", "its own shapes are x=2"]),
    (
        "bench pool.tflite -d cpu -s 4,4",
        2,
        &["pool.tflite does not take --shape x=4,4", "its own shapes are x=1,4,4,1"],
    ),
    ("diff add.tflite -d cpu -s 0", 2, &["add.tflite does not take --shape x=0", "its own shapes are x=2"]),
    ("run relu.tflite -d cpu -s 1,-2,2,1", 2, &["--shape \"1,-2,2,1\"", "is not a shape", "is written 1,2,2,1"]),
    ("run relu.tflite -d cpu -s -1,2,2,1", 2, &["--shape \"-1,2,2,1\"", "is not a shape", "is written 1,2,2,1"]),
    ("run relu.tflite -d cpu -s 1x2x2x1", 2, &["--shape \"1x2x2x1\"", "is not a shape", "is written 1,2,2,1"]),
    ("run relu.tflite -d cpu -s x=", 2, &["--shape \"\"", "is not a shape", "is written 1,2,2,1"]),
    ("run relu.tflite -d cpu -s z=1,2,2,1", 2, &["relu.tflite: ", "no input named \"z\"", "its inputs are \"x\""]),
    ("run relu.tflite -d cpu -s 1 -s 2", 2, &["--shape 2: there is no input left", "leave it out"]),
    ("run relu.tflite -d cpu -s x=1 -s x=2", 2, &["--shape x=2: input 0 has one already", "at most one"]),
    ("run relu.tflite -d cpu -s 4294967296,4294967296", 2, &["[4294967296, 4294967296]", "give it smaller extents"]),
];

static ARRAYS: &[Bad] = &[
    ("run relu.tflite -d cpu -i none.npy", 2, &["none.npy: there is no such file", "check the path"]),
    ("run relu.tflite -d cpu -i x=", 2, &["\"\": there is no such file", "check the path"]),
    ("run relu.tflite -d cpu -i models", 2, &["models: this is a directory", "name a file"]),
    ("run relu.tflite -d cpu -i z=x.npy", 2, &["no input named \"z\"", "its inputs are \"x\""]),
    ("run relu.tflite -d cpu -i x.npy -i x.npy", 2, &["--input x.npy: there is no input left", "leave it out"]),
    ("run relu.tflite -d cpu -i x=x.npy -i x=x.npy", 2, &["--input x=x.npy: input 0 has one already", "at most one"]),
    ("run relu.tflite -d cpu -i cut.npy", 2, &["cut.npy: ", "takes 16 bytes, the file holds 13", "save it again"]),
    ("run relu.tflite -d cpu -i header.npy", 2, &["header.npy: the file is cut off", "save it again"]),
    ("run relu.tflite -d cpu -i text.npy", 2, &["text.npy: this is not a .npy file", "numpy.save"]),
    ("run relu.tflite -d cpu -i objects.npy", 2, &["objects.npy: ", "type '|O'", "use one of numpy's numeric types"]),
    ("run relu.tflite -d cpu -i giant.npy", 2, &["giant.npy: ", "is too large", "save a smaller array"]),
    ("run relu.tflite -d cpu -i vast.npy", 2, &["vast.npy: ", "bytes, and the limit is", "name a smaller one"]),
    ("run relu.tflite -d cpu -i doubles.npy", 2, &["doubles.npy: ", "type FLOAT64", "save array.astype(\"float32\")"]),
    ("bench bytes.tflite -d cpu -i x.npy", 2, &["x.npy: ", "the input of type UINT8", "save array.astype(\"uint8\")"]),
    ("diff relu.tflite -d cpu -i longer.npy", 2, &["longer.npy: ", "shape [3], input 0 has", "--shape x=3"]),
    (
        "run add.tflite -d cpu -i longer.npy",
        2,
        &["longer.npy: ", "shape [3], input 0 has [2]", "give longer.npy another"],
    ),
    ("run relu.tflite -d cpu -i relu.tflite", 2, &["relu.tflite: ", "neither a picture nor", "PNG or JPEG file"]),
    ("run strings.tflite -d cpu -i x.npy", 2, &["x.npy: ", "the input of type STRING", "save array.astype(\"str\")"]),
    ("run strings.tflite -d cpu -i longer.npy", 2, &["longer.npy: ", "the input of type STRING"]),
    ("run complex.tflite -d cpu", 4, &["input 0 (\"wave\") of type COMPLEX64", "give it a file with --input"]),
];

static PICTURES: &[Bad] = &[
    ("run pixels.tflite -d cpu -i cut.png", 2, &["cut.png: the picture can't be read", "save it anew as PNG or JPEG"]),
    ("run pixels.tflite -d cpu -i cut.jpg", 2, &["cut.jpg: the picture can't be read", "save it anew as PNG or JPEG"]),
    ("bench pixels.tflite -d cpu -i empty.png", 2, &["empty.png: the file is empty", "give a .npy, PNG or JPEG file"]),
    (
        "diff pixels.tflite -d cpu -i vast.png",
        2,
        &["vast.png: the picture has 100000 × 100000 pixels", "give a smaller one"],
    ),
    ("run pixels.tflite -d cpu -i cat.gif", 2, &["cat.gif: ", "Gif is not supported", "save it anew as PNG or JPEG"]),
    ("run pixels.tflite -d cpu -i notes.txt", 2, &["notes.txt: ", "neither a picture nor", "PNG or JPEG file"]),
    ("run scores.tflite -d cpu -i cat.png", 2, &["cat.png: ", "an input of shape [1, 4]", "give a .npy file"]),
    ("run pixels.tflite -d cpu -i cat.png --mean 0", 2, &["--std <Y>", "required"]),
    ("run pixels.tflite -d cpu -i cat.png --mean 0 --std 0", 2, &["--std <Y>", "other than 0"]),
    ("run pixels.tflite -d cpu -i cat.png --mean nan --std 1", 2, &["--mean <X>", "must be a finite number"]),
    (
        "run pixels.tflite -d cpu --mean 0 --std 1",
        2,
        &["--mean and --std", "leave them out, or give a PNG or JPEG file"],
    ),
];

static LABELS: &[Bad] = &[
    ("run scores.tflite -d cpu -l none.txt", 2, &["none.txt: there is no such file", "check the path"]),
    ("run scores.tflite -d cpu -l blank.txt", 2, &["blank.txt: there are no labels in it", "write one a line"]),
    ("run scores.tflite -d cpu -l binary.txt", 2, &["binary.txt: this is not text in UTF-8", "save it as such"]),
    ("run scores.tflite -d cpu -l three.txt", 2, &["three.txt: 3 labels for the 4 classes", "line \"background\""]),
    ("run deep.tflite -d cpu -l three.txt", 2, &["no output has one score for each class", "leave out --labels"]),
    ("run deep.tflite -d cpu --top 3", 2, &["no output has one score for each class", "leave out --top"]),
    ("run scores.tflite -d cpu --top 0", 2, &["--top <K>", "a whole number from 1"]),
    ("run scores.tflite -d cpu --threshold high", 2, &["--threshold <X>", "must be a finite number"]),
];

static OUTPUTS: &[Bad] = &[
    (
        "run pixels.tflite -d cpu -i cat.png --draw no/x.png",
        2,
        &["no/x.png: the folder of this file is not", "make it"],
    ),
    ("run pixels.tflite -d cpu -i cat.png --draw notes.txt/x.png", 2, &["notes.txt/x.png: ", "name another place"]),
    ("run pixels.tflite -d cpu -i cat.png --draw out.gif", 2, &["out.gif: ", "ends in .png or .jpg"]),
    ("run pixels.tflite -d cpu -i cat.png --draw models", 2, &["models: ", "ends in .png or .jpg"]),
    ("run scores.tflite -d cpu --draw old.png", 2, &["--draw", "no --input is one", "give it a PNG or JPEG file"]),
    ("run bytes.tflite -d cpu -i cat.png --draw old.png -l one.txt -o new", 2, &["one.txt: 1 label", "for each class"]),
    ("run deep.tflite -d cpu --draw old.png", 2, &["there is nothing to draw", "leave out --draw", "--out DIR"]),
    ("run relu.tflite -d cpu -o notes.txt", 2, &["notes.txt: this is a file", "name a folder"]),
    ("run relu.tflite -d cpu -o notes.txt/new", 2, &["notes.txt/new: a part of this path is a file", "name another"]),
    ("run lookup.tflite -d cpu -o new", 3, &["lookup.tflite: ", "(GATHER)", "--input FILE gives others"]),
    ("bench relu.tflite -d cpu -o no/new.json", 2, &["no/new.json: the folder of this file is not there", "make it"]),
    ("bench relu.tflite -d cpu --svg models", 2, &["models: this is a directory", "name a file"]),
    (
        "bench relu.tflite -d cpu -o new --svg new",
        2,
        &["new: two options name this file, --out and --svg", "name another"],
    ),
    (
        "bench relu.tflite -d cpu -o relu.tflite",
        2,
        &["relu.tflite: --out would replace this file", "(MODEL)", "another"],
    ),
    ("bench relu.tflite -d cpu -i x=x.npy --svg models/../x.npy", 2, &["x.npy: --svg would", "(--input)", "another"]),
    ("bench relu.tflite -d cpu --chrome-trace relu.tflite", 2, &["relu.tflite: --chrome-trace would", "name another"]),
    ("run pixels.tflite -d cpu -i cat.png --draw cat.png", 2, &["cat.png: --draw would", "(--input)", "name another"]),
    ("run pixels.tflite -d cpu -l old.png --draw old.png", 2, &["old.png: --draw would", "(--labels)", "name another"]),
    ("run relu.tflite -d cpu -i models/out_0.npy -o models", 2, &["out_0.npy: --out would", "(--input)", "another"]),
    (
        "diff damaged_case/model.tflite -d cpu --bisect -o damaged_case",
        2,
        &["damaged_case/model.tflite: --out would", "(MODEL)", "name another"],
    ),
    (
        "eval classification scores.tflite --images nothing --truth three.txt -o three.txt",
        2,
        &["three.txt: --out would replace this file", "(--truth)", "name another file for --out"],
    ),
    (
        "eval detection pixels.tflite --images nothing --truth old.json --write-detections old.json",
        2,
        &["old.json: --write-detections would replace", "(--truth)", "name another file"],
    ),
    (
        "eval detection pixels.tflite --images . --truth old.json -o ./cat.png",
        2,
        &["cat.png: --out would replace", "(--images)", "name another file"],
    ),
    (
        "bench --compare old.json none.json",
        2,
        &["old.json: this is no answer of bench", "`attache bench MODEL --out FILE`"],
    ),
    ("bench --compare none.json old.json", 2, &["none.json: there is no such file", "check the path"]),
    ("diff relu.tflite -d cpu --bisect -o notes.txt", 2, &["notes.txt: this is a file", "name a folder"]),
    ("zoo lstm_128 --out no/new.tflite", 2, &["no/new.tflite: the folder of this file is not there", "make it first"]),
];

static SIGNATURES: &[Bad] = &[
    ("run signed.tflite -d cpu --signature save", 2, &["signed.tflite: ", "no signature \"save\"", "it has \"train\""]),
    (
        "inspect signed.tflite --signature ''",
        2,
        &["signed.tflite: ", "no signature \"\"", "it has \"train\", \"infer\""],
    ),
    ("dump graph signed.tflite --signature save", 2, &["signed.tflite: ", "no signature \"save\"", "it has \"train\""]),
    ("run relu.tflite -d cpu --signature infer", 2, &["relu.tflite: ", "it has none", "leave out --signature"]),
];

static OPTIONS: &[Bad] = &[
    ("fly", 2, &["'fly'", "try '--help'"]),
    ("run", 2, &["<MODEL>", "Usage: attache run"]),
    ("run relu.tflite extra", 2, &["'extra'", "Usage: attache run"]),
    ("run relu.tflite --sed 1", 2, &["'--sed'", "'--seed'"]),
    ("run relu.tflite --seed x", 2, &["--seed <N>", "a whole number from 0"]),
    ("run relu.tflite -d tpu", 2, &["'--delegate <DELEGATE>'", "possible values: cpu, gpu"]),
    ("run relu.tflite -d cpu --precision f8", 2, &["'--precision <PRECISION>'", "possible values: f32, f32_f16, f16"]),
    ("inspect relu.tflite --quantized maybe", 2, &["'--quantized <QUANTIZED>'", "possible values: auto, view, exact"]),
    ("run relu.tflite -t -1", 2, &["--threads <N>", "a whole number from 1 to 65535"]),
    ("run relu.tflite --seed -5", 2, &["--seed <N>", "a whole number from 0"]),
    ("run relu.tflite --top -1", 2, &["--top <K>", "a whole number from 1"]),
    ("run relu.tflite --limit-tensor-bytes -1", 2, &["--limit-tensor-bytes <N>", "a whole number from 0"]),
    ("bench relu.tflite -n -1", 2, &["--runs <N>", "a whole number from 1"]),
    ("run relu.tflite -t 0", 2, &["--threads <N>", "a whole number from 1 to 65535"]),
    ("bench relu.tflite -n 0", 2, &["--runs <N>", "a whole number from 1"]),
    ("run relu.tflite -q -v", 2, &["'--quiet'", "'--verbose...'", "Usage: attache run"]),
    ("run relu.tflite -d cpu --backend vulkan", 2, &["--backend", "leave out --delegate cpu"]),
    ("run relu.tflite -d cpu --adapter x", 2, &["--adapter", "leave out --delegate cpu"]),
    ("run relu.tflite -d cpu --require-delegation", 2, &["--require-delegation", "leave out --delegate cpu"]),
    ("run relu.tflite -d cpu --submission replay", 2, &["--submission", "leave it or --delegate cpu out"]),
    (
        "run relu.tflite -d cpu --variant conv",
        4,
        &["--variant is for a GPU", "--delegate gpu takes a software adapter"],
    ),
    ("run relu.tflite -d cpu --precision f16", 4, &["--precision f16", "leave it or --delegate cpu out"]),
    ("dump partition relu.tflite --cpu-fallback", 2, &["--cpu-fallback", "leave them out"]),
    ("dump wgsl relu.tflite -d cpu", 4, &["the stage wgsl is the GPU's", "--delegate gpu"]),
    ("dump stages relu.tflite", 2, &["'stages'", "possible values: graph, passes"]),
    ("bench", 2, &["<MODEL>", "Usage: attache bench"]),
    ("bench --compare old.json", 2, &["'--compare <BEFORE> <AFTER>'", "2 values required"]),
    ("bench relu.tflite --compare old.json old.json", 2, &["'--compare <BEFORE> <AFTER>'", "Usage: attache bench"]),
    ("diff relu.tflite -d cpu -o new", 2, &["--bisect", "required"]),
    ("diff relu.tflite -d cpu --tolerance -1", 2, &["--tolerance <X>", "a finite number of 0 or more"]),
    ("check damaged_case --quantization-steps lots", 2, &["--quantization-steps", "neither N nor N:P:M, as 2"]),
    ("zoo lstm_128", 2, &["\"lstm_128\"", "name a file", "--out FILE"]),
    ("zoo lstm_129", 2, &["no built-in model \"lstm_129\"", "there are: "]),
    ("zoo --out new.tflite", 2, &["<NAME>", "Usage: attache zoo"]),
    ("eval detection m --images . --truth t --outputs 0,1,2,1", 2, &["--outputs <A,B,C,D>", "output 1 is named twice"]),
    ("completions dos", 2, &["'dos'", "possible values: bash"]),
    ("cache", 2, &["<ACTION>", "Usage: attache cache"]),
    ("cache burn", 2, &["'burn'", "possible values: list, clear, verify"]),
    ("cache list --cache notes.txt", 2, &["notes.txt: this is a file", "name a folder"]),
    ("run relu.tflite -d cpu --cache ''", 2, &["--cache", "a folder, auto or off"]),
    ("devices now", 2, &["'now'", "Usage: attache devices"]),
];

static CASES: &[Bad] = &[
    ("check none -d cpu", 2, &["none: there is no such file", "check the path"]),
    ("check nothing -d cpu", 2, &["nothing: there is no case in it", "name a folder with model.tflite"]),
    ("check relu.tflite -d cpu", 2, &["relu.tflite: this is a file", "name the folder of a case"]),
    ("check damaged_case -d cpu --filter zebra", 2, &["--filter zebra: no case", "give another, or leave it out"]),
    (
        "check damaged_case -d cpu --variant all",
        4,
        &["--variant is for a GPU", "--delegate gpu takes a software adapter"],
    ),
    ("check damaged_case -d cpu", 1, &["damaged_case/in_1.npy: this is not a .npy file", "numpy.save"]),
    ("check short_case -d cpu", 1, &["short_case", "files in_K.npy: 1, inputs of the model: 2", "add or remove files"]),
    ("check short_case -d cpu --against cpu", 1, &["short_case", "in_K.npy", "add or remove files"]),
    ("check notes_case -d cpu", 1, &["notes_case/case.json: this does not describe a case", "or remove the file"]),
    ("check modelless_case -d cpu", 1, &["modelless_case/model.tflite: not a TensorFlow Lite model", "name a file"]),
];

#[cfg(feature = "gpu")]
static DEVICES: &[Bad] = &[
    ("run relu.tflite --adapter Voodoo", 5, &["whose name holds \"Voodoo\"", "ask for one of \"", "`attache devices`"]),
    ("bench relu.tflite --backend vulkan --adapter Voodoo", 5, &["through vulkan whose name", "ask for one of \""]),
    #[cfg(not(target_os = "macos"))]
    (
        "run relu.tflite --backend metal",
        5,
        &["through metal", "this build has no such graphics API", "`attache devices`"],
    ),
    #[cfg(not(windows))]
    ("dump plan relu.tflite --backend dx12", 5, &["through dx12", "this build has no such graphics API"]),
    ("run relu.tflite --backend glide", 2, &["'--backend <BACKEND>'", "possible values: vulkan, metal, dx12, gl"]),
    ("run relu.tflite -d gpu --variant none", 2, &["--variant none is not known", "conv_winograd"]),
    ("run relu.tflite --require-delegation", 4, &["--require-delegation", "--delegate gpu takes a software adapter"]),
    ("run relu.tflite --precision f16", 4, &["--precision", "--delegate gpu takes a software adapter"]),
    ("run relu.tflite --submission replay", 4, &["--submission", "--delegate gpu takes a software adapter"]),
    ("run relu.tflite --variant conv", 4, &["--variant", "--delegate gpu takes a software adapter"]),
    ("check damaged_case --variant all", 4, &["--variant", "--delegate gpu takes a software adapter"]),
    ("diff relu.tflite", 4, &["no hardware GPU to compare with", "--delegate gpu takes a software adapter"]),
    ("dump kernels relu.tflite", 4, &["the stage kernels is the GPU's", "--delegate gpu takes a software adapter"]),
    ("run relu.tflite --backend gl --submission replay", 4, &["the submission replay", "leave the submission to"]),
    ("run unknown.tflite -d gpu", 4, &["unknown.tflite: 2 operators", "convert the model without them"]),
    ("run relu.tflite -d gpu --require-delegation -s 0", 4, &["(RELU): it is not delegated", "without require_"]),
];

#[cfg(not(feature = "gpu"))]
static NO_DEVICES: &[Bad] = &[
    ("run relu.tflite -d gpu", 4, &["built without the feature `gpu`", "leave out --delegate"]),
    ("run relu.tflite --backend vulkan", 4, &["built without the feature `gpu`", "leave out --delegate"]),
];

#[cfg(unix)]
static SPECIAL_FILES: &[Bad] = &[
    ("run dangling.tflite", 2, &["dangling.tflite: this is a link to nowhere, which is not there", "name"]),
    ("inspect circle.tflite", 2, &["circle.tflite: it cannot be read: ", "name another file"]),
    ("run pipe", 2, &["pipe: this is a pipe or a device", "copy what it gives to a file"]),
    ("run relu.tflite -d cpu -i pipe", 2, &["pipe: this is a pipe or a device", "copy what it gives to a file"]),
    ("run relu.tflite -d cpu -l pipe", 2, &["pipe: this is a pipe or a device", "copy what it gives to a file"]),
    #[cfg(target_os = "linux")]
    ("bench relu.tflite -d cpu -o /sys/new", 2, &["/sys/new: ", "name another"]),
    #[cfg(target_os = "linux")]
    ("run relu.tflite -d cpu -o /sys/new", 2, &["/sys/new: ", "name another"]),
    #[cfg(target_os = "linux")]
    ("diff relu.tflite -d cpu --bisect -o /sys/new", 2, &["/sys/new: ", "name another"]),
    ("survey pipe", 2, &["pipe: this is no folder", "name one that has models"]),
    (
        "bench relu.tflite -d cpu -o link.tflite",
        2,
        &["link.tflite: --out would replace", "(MODEL)", "name another file"],
    ),
    ("zoo lstm_128 --out /dev/full", 2, &["/dev/full: the disk is full", "name another place"]),
];
