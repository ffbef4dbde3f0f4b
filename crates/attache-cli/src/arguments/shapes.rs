//! Parses `--shape`, which gives inputs other shapes than in the file, and composes `--shape` options for
//! error messages to propose.

use attache::{Model, Shape};

use crate::arguments::{ShapeArguments, assign};
use crate::console::Console;
use crate::failure::Failure;

/// New shapes of inputs, as pairs of input index and extents.
pub(crate) type Shapes = Vec<(usize, Vec<usize>)>;

/// Returns the inputs of the first subgraph to which `--shape` gives another shape, with that shape.
pub(crate) fn input_shapes(model: &Model, arguments: &ShapeArguments) -> Result<Shapes, Failure> {
    let inputs = &model.subgraphs()[0].inputs;
    let assigned = assign(&arguments.shape, inputs.len(), |name| find(model, name), |name| no_input(name, model))?;
    assigned.into_iter().map(|(input, text)| Ok((input, parse(text, own(model, input), model)?))).collect()
}

/// Returns the index of the input with this name, which is the tensor's name or the name in a signature.
fn find(model: &Model, name: &str) -> Option<usize> {
    let subgraph = &model.subgraphs()[0];
    let own = subgraph.inputs.iter().position(|tensor| subgraph.tensors[*tensor].name == name);
    let signatures = model.signatures().iter().filter(|signature| signature.subgraph == 0);
    own.or_else(|| {
        let tensor = signatures.flat_map(|signature| &signature.inputs).find(|input| input.0 == name)?.1;
        subgraph.inputs.iter().position(|input| *input == tensor)
    })
}

fn tensor(model: &Model, input: usize) -> &attache::model::Tensor {
    let subgraph = &model.subgraphs()[0];
    &subgraph.tensors[subgraph.inputs[input]]
}

/// Returns the shape of an input in the file.
fn own(model: &Model, input: usize) -> &Shape {
    &tensor(model, input).shape
}

/// Parses extents separated by commas, with or without brackets; `[]` is the shape of a scalar.
fn parse(text: &str, own: &Shape, model: &Model) -> Result<Vec<usize>, Failure> {
    if let Some((name, _)) = text.split_once('=') {
        return Err(no_input(name, model));
    }
    let inner = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if inner.is_some_and(|inner| inner.trim().is_empty()) {
        return Ok(Vec::new());
    }
    let extents = inner.unwrap_or(text).split(',').map(|extent| extent.trim().parse::<usize>());
    let wrong =
        |_| Failure::usage(format!("\"{text}\" is not a shape; the input's own is written {}", written(own.extents())));
    extents.collect::<Result<_, _>>().map_err(wrong)
}

/// Returns the error for a name that no input has, with the names that exist.
pub(crate) fn no_input(name: &str, model: &Model) -> Failure {
    let names: Vec<String> = (0..model.subgraphs()[0].inputs.len())
        .map(|input| format!("\"{}\"", Console::plain().name(&tensor(model, input).name)))
        .collect();
    Failure::usage(format!("the model has no input named \"{name}\"; its inputs are {}", names.join(", ")))
}

/// Formats a shape in the form that `--shape` takes.
fn written(extents: &[usize]) -> String {
    match extents {
        [] => "[]".to_owned(),
        extents => extents.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    }
}

/// Returns the `--shape` options that give inputs these shapes, quoted for a shell: by name if all names are
/// unambiguous, else by order.
pub(crate) fn options(model: &Model, shapes: &Shapes) -> String {
    let name = |input: usize| tensor(model, input).name.as_str();
    let is_clear = |input: usize| {
        let name = name(input);
        !name.is_empty() && !name.contains('=') && !name.contains(char::is_control) && find(model, name) == Some(input)
    };
    let option = |text: String| format!("--shape {}", quoted(&text));
    if shapes.iter().all(|(input, _)| is_clear(*input)) {
        let options = shapes.iter().map(|(input, shape)| option(format!("{}={}", name(*input), written(shape))));
        return options.collect::<Vec<_>>().join(" ");
    }
    let last = shapes.iter().map(|(input, _)| *input).max().unwrap_or(0);
    let shape = |input: usize| {
        let changed = shapes.iter().find(|(changed, _)| *changed == input);
        changed.map_or(own(model, input).extents(), |(_, shape)| shape)
    };
    (0..=last).map(|input| option(written(shape(input)))).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "_-./:,=".contains(character);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
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
        input_shapes(model, &ShapeArguments { shape: texts.iter().map(|text| text.to_string()).collect() })
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
            let text = options(&model, &shapes);
            assert_eq!(text, expected);
            let words: Vec<&str> = text.split("--shape ").skip(1).map(|word| word.trim().trim_matches('\'')).collect();
            assert!(parsed(&words, &model).unwrap().contains(&shapes[0]), "{names:?}");
        }
        assert_eq!(options(&model(&["x"]), &vec![(0, vec![])]), "--shape 'x=[]'");
    }
}
