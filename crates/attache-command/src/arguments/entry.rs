//! Resolves `--signature` and `--shape`: the subgraph that a command runs, and the inputs that get other
//! shapes than in the file. Also composes `--shape` options for error messages to propose.

use std::ffi::OsStr;

use attache::model::{Subgraph, Tensor};
use attache::{Error, ErrorKind, Model, Shape, stages};

use crate::arguments::{EntryArguments, assign};
use crate::console::{Console, is_hidden};
use crate::failure::Failure;

/// New shapes of inputs, as pairs of input index and extents.
pub(crate) type Shapes = Vec<(usize, Vec<usize>)>;

/// The subgraph of a model that runs, which is the first one or that of a signature, with other shapes for
/// some inputs.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) model: &'a Model,
    /// The model's path or name, for messages.
    pub(crate) name: &'a str,
    /// Index of the subgraph.
    pub(crate) index: usize,
    /// The key that `--signature` gave.
    pub(crate) signature: Option<&'a str>,
    pub(crate) shapes: Shapes,
}

impl<'a> Entry<'a> {
    /// Resolves the arguments of the command line.
    pub(crate) fn new(model: &'a Model, name: &'a str, arguments: &'a EntryArguments) -> Result<Self, Failure> {
        let signature = arguments.signature.as_deref();
        let index = signature.map_or(Ok(0), |key| subgraph_of(model, key)).map_err(|failure| failure.at(name))?;
        let mut entry = Self { model, name, index, signature, shapes: Vec::new() };
        let (find, missing) = (|name: &str| entry.find(name), |name: &str| entry.no_input(name));
        let assigned = assign(("--shape", &arguments.shape), entry.subgraph().inputs.len(), find, missing)?;
        let shape = |(input, text): (usize, &OsStr)| {
            Ok((input, entry.parse(&text.to_string_lossy(), &entry.tensor(input).shape)?))
        };
        entry.shapes = assigned.into_iter().map(shape).collect::<Result<_, Failure>>()?;
        Ok(entry)
    }

    /// Returns the first subgraph, with these shapes.
    pub(crate) fn first(model: &'a Model, name: &'a str, shapes: Shapes) -> Self {
        Self { model, name, index: 0, signature: None, shapes }
    }

    /// Returns the same subgraph with other shapes.
    pub(crate) fn with_shapes(&self, shapes: Shapes) -> Self {
        Self { shapes, ..self.clone() }
    }

    pub(crate) fn subgraph(&self) -> &'a Subgraph {
        &self.model.subgraphs()[self.index]
    }

    /// Returns the index of the input with this name, which is the tensor's name or the name in a signature.
    fn find(&self, name: &str) -> Option<usize> {
        let subgraph = self.subgraph();
        let own = subgraph.inputs.iter().position(|tensor| subgraph.tensors[*tensor].name == name);
        let signatures = self.model.signatures().iter().filter(|signature| signature.subgraph == self.index);
        own.or_else(|| {
            let tensor = signatures.flat_map(|signature| &signature.inputs).find(|input| input.0 == name)?.1;
            subgraph.inputs.iter().position(|input| *input == tensor)
        })
    }

    fn tensor(&self, input: usize) -> &'a Tensor {
        let subgraph = self.subgraph();
        &subgraph.tensors[subgraph.inputs[input]]
    }

    /// Parses extents separated by commas, with or without brackets; `[]` is the shape of a scalar.
    fn parse(&self, text: &str, own: &Shape) -> Result<Vec<usize>, Failure> {
        if let Some((name, _)) = text.split_once('=') {
            return Err(self.no_input(name));
        }
        let inner = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if inner.is_some_and(|inner| inner.trim().is_empty()) {
            return Ok(Vec::new());
        }
        let extents = inner.unwrap_or(text).split(',').map(|extent| extent.trim().parse::<usize>());
        let wrong = |_| {
            let own = written(own.extents());
            let reason = format!("--shape \"{text}\" is not a shape, which is whole numbers with commas between them");
            Failure::usage(format!("{reason}; the input's own is written {own}"))
        };
        extents.collect::<Result<_, _>>().map_err(wrong)
    }

    /// Returns the error for a name that no input has, with the names that exist.
    pub(crate) fn no_input(&self, name: &str) -> Failure {
        let count = self.subgraph().inputs.len();
        let names = listed((0..count).map(|input| self.tensor(input).name.as_str()));
        Failure::usage(format!("the model has no input named \"{name}\"; its inputs are {names}")).at(self.name)
    }

    /// Converts an error about the model. The message names the model, and the `--shape` options if it is valid
    /// without them.
    pub(crate) fn failure(&self, error: Error) -> Failure {
        let name = self.name;
        match error.kind() {
            ErrorKind::Model if self.is_valid_without_shapes() => {
                let (options, own) = (self.options(&self.shapes), self.own_shapes());
                Failure::usage(format!("{name} does not take {options}: {error}; its own shapes are {own}"))
            }
            ErrorKind::Model => Failure::from(error).at(format!("{name} is inconsistent; convert it anew")),
            ErrorKind::Unsupported | ErrorKind::LimitExceeded | ErrorKind::NotDelegated => {
                Failure::from(error).at(name)
            }
            _ => error.into(),
        }
    }

    /// Whether there are `--shape` options and the model is valid with its own shapes.
    fn is_valid_without_shapes(&self) -> bool {
        !self.shapes.is_empty() && stages::import(self.model, self.index, &[]).is_ok()
    }

    /// Returns the values of `--shape` options for the inputs that have other shapes, with their shapes in
    /// the file.
    fn own_shapes(&self) -> String {
        let own = |(input, _): &(usize, Vec<usize>)| (*input, self.tensor(*input).shape.to_vec());
        self.options(&self.shapes.iter().map(own).collect()).replace("--shape ", "")
    }

    /// Returns the `--shape` options that give inputs these shapes, quoted for a shell: by name if all names
    /// are unambiguous, else by order.
    pub(crate) fn options(&self, shapes: &Shapes) -> String {
        let name = |input: usize| self.tensor(input).name.as_str();
        let is_clear = |input: usize| {
            let name = name(input);
            let is_plain = !name.is_empty() && !name.contains('=') && !name.contains(char::is_control);
            is_plain && self.find(name) == Some(input)
        };
        let option = |text: String| format!("--shape {}", quoted(&text));
        if shapes.iter().all(|(input, _)| is_clear(*input)) {
            let options = shapes.iter().map(|(input, shape)| option(format!("{}={}", name(*input), written(shape))));
            return options.collect::<Vec<_>>().join(" ");
        }
        let last = shapes.iter().map(|(input, _)| *input).max().unwrap_or(0);
        let shape = |input: usize| {
            let changed = shapes.iter().find(|(changed, _)| *changed == input);
            changed.map_or(self.tensor(input).shape.extents(), |(_, shape)| shape)
        };
        (0..=last).map(|input| option(written(shape(input)))).collect::<Vec<_>>().join(" ")
    }
}

/// Returns the index of the subgraph of the signature with this key.
fn subgraph_of(model: &Model, key: &str) -> Result<usize, Failure> {
    let found = model.signatures().iter().find(|signature| signature.key == key);
    found.map(|signature| signature.subgraph).ok_or_else(|| {
        let remedy = match model.signatures() {
            [] => "it has none, so leave out --signature".to_owned(),
            all => format!("it has {}", listed(all.iter().map(|signature| signature.key.as_str()))),
        };
        Failure::usage(format!("the model has no signature \"{key}\"; {remedy}"))
    })
}

/// Lists names from a file in quotes.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("\"{}\"", Console::plain().name(name))).collect::<Vec<_>>().join(", ")
}

/// Formats a shape in the form that `--shape` takes.
fn written(extents: &[usize]) -> String {
    match extents {
        [] => "[]".to_owned(),
        extents => extents.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    }
}

/// Quotes a word for a shell. Characters that a terminal would not show are written as escapes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_-./:,=".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.chars().all(|character| !is_hidden(character)) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let escaped = |character: char| match character {
        '\'' | '\\' => format!("\\{character}"),
        _ if is_hidden(character) => {
            character.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}")).collect()
        }
        _ => character.to_string(),
    };
    format!("$'{}'", word.chars().map(escaped).collect::<String>())
}

#[cfg(test)]
mod tests {
    use attache::{DataType, ModelBuilder, TensorBuilder};

    use super::*;

    fn model(names: &[&str]) -> Model {
        let mut builder = ModelBuilder::new("shapes");
        let main = builder.subgraph("main");
        let shape = [1, 2, 2, 3];
        let tensors: Vec<usize> =
            names.iter().map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, shape))).collect();
        builder.inputs(main, &tensors).outputs(main, &tensors);
        Model::from_bytes(builder.finish()).unwrap()
    }

    fn parsed(texts: &[&str], model: &Model) -> Result<Shapes, Failure> {
        let arguments = EntryArguments { signature: None, shape: texts.iter().map(|text| text.to_string()).collect() };
        Entry::new(model, "m", &arguments).map(|entry| entry.shapes)
    }

    #[test]
    fn shapes_are_extents() {
        let model = model(&["x"]);
        for text in ["1,224, 224,3", "[1, 224, 224, 3]", "x=1,224,224,3", "x=[1,224,224,3]"] {
            assert_eq!(parsed(&[text], &model).unwrap(), [(0, vec![1, 224, 224, 3])], "{text}");
        }
        assert_eq!(parsed(&["[]"], &model).unwrap(), [(0, vec![])]);
        for text in ["1x224", "-1,2", "", "[1,2", "1,,2"] {
            assert!(parsed(&[text], &model).unwrap_err().message.ends_with("written 1,2,2,3"), "{text}");
        }
        for text in ["y=1,2", "a/y=1,2"] {
            let message = parsed(&[text], &model).unwrap_err().message;
            assert!(message.contains("no input named") && message.ends_with("its inputs are \"x\""), "{message}");
        }
    }

    #[test]
    fn options_say_what_was_meant() {
        let shapes: Shapes = vec![(1, vec![4, 5])];
        let cases = [
            (&["x", "y"][..], "--shape y=4,5"),
            (&["x", "a b"], "--shape 'a b=4,5'"),
            (&["x", ""], "--shape 1,2,2,3 --shape 4,5"),
            (&["x", "a=b"], "--shape 1,2,2,3 --shape 4,5"),
            (&["x", "x"], "--shape 1,2,2,3 --shape 4,5"),
        ];
        for (names, expected) in cases {
            let model = model(names);
            let text = Entry::first(&model, "m", Vec::new()).options(&shapes);
            assert_eq!(text, expected);
            let words: Vec<&str> = text.split("--shape ").skip(1).map(|word| word.trim().trim_matches('\'')).collect();
            assert!(parsed(&words, &model).unwrap().contains(&shapes[0]), "{names:?}");
        }
        let model = model(&["x"]);
        assert_eq!(Entry::first(&model, "m", Vec::new()).options(&vec![(0, vec![])]), "--shape 'x=[]'");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let cases = [
            ("a-b/c.tflite", "a-b/c.tflite"),
            ("", "''"),
            ("a b", "'a b'"),
            ("a'b", "'a'\\''b'"),
            ("a\n'\u{202e}", "$'a\\012\\'\\342\\200\\256'"),
        ];
        for (word, expected) in cases {
            assert_eq!(quoted(word), expected);
            #[cfg(unix)]
            if let Ok(output) =
                std::process::Command::new("bash").args(["-c", &format!("printf %s {expected}")]).output()
            {
                assert_eq!(output.stdout, word.as_bytes(), "{word:?}");
            }
        }
    }

    #[test]
    fn a_signature_selects_a_subgraph() {
        let mut builder = ModelBuilder::new("signatures");
        for name in ["train", "infer"] {
            let subgraph = builder.subgraph(name);
            let x = builder.tensor(subgraph, TensorBuilder::new(name, DataType::Float32, [2]));
            builder.inputs(subgraph, &[x]).outputs(subgraph, &[x]);
            builder.signature(name, subgraph, &[("x", x)], &[("y", x)]);
        }
        let model = Model::from_bytes(builder.finish()).unwrap();
        let arguments = |key: &str| EntryArguments { signature: Some(key.to_owned()), shape: vec!["x=3".to_owned()] };
        let infer = arguments("infer");
        let entry = Entry::new(&model, "m", &infer).unwrap();
        assert_eq!((entry.index, entry.shapes), (1, vec![(0, vec![3])]));
        let text = Entry::new(&model, "m", &arguments("save")).unwrap_err().message;
        assert!(text.ends_with("it has \"train\", \"infer\""), "{text}");
    }
}
