//! The inputs of `benchmark_model`: shapes, ranges and files of layers, and random numbers for the rest.

use std::path::Path;

use attache::{DataType, Interpreter, TensorInfo, strings};

use super::super::flags::Flags;
use crate::arguments::entry::{Entry, Shapes};
use crate::console::Console;
use crate::failure::Failure;
use crate::io::files;
use crate::io::twister::{Range, Twister, short};

/// The flag with the ranges of random numbers.
const VALUE_RANGE: &str = "input_layer_value_range";

/// What the command line says of one input.
#[derive(Clone, Debug, PartialEq)]
struct Layer {
    name: String,
    shape: Vec<usize>,
    range: Option<Range>,
    file: Option<String>,
}

/// What the command line says of the inputs; empty if it says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layers(Vec<Layer>);

impl Layers {
    /// Parses the flags `--input_layer…`.
    pub(super) fn parse(flags: &Flags) -> Result<Self, Failure> {
        let names: Vec<&str> = list(flags.text("input_layer"), ',');
        let shapes: Vec<&str> = list(flags.text("input_layer_shape"), ':');
        if names.len() != shapes.len() {
            return Err(Failure::usage(format!(
                "--input_layer names {} inputs and --input_layer_shape has {} shapes; give one shape for each, \
                 separated by \":\"",
                names.len(),
                shapes.len()
            )));
        }
        let layer = |(name, shape): (&&str, &&str)| {
            let extents = shape.split(',').map(|extent| extent.trim().parse::<usize>());
            let wrong =
                |_| Failure::usage(format!("--input_layer_shape: \"{shape}\" is not a shape such as 1,224,224,3"));
            let shape = extents.collect::<Result<_, _>>().map_err(wrong)?;
            Ok(Layer { name: (*name).to_owned(), shape, range: None, file: None })
        };
        let mut layers = Self(names.iter().zip(&shapes).map(layer).collect::<Result<_, Failure>>()?);
        // A colon that belongs to a name is doubled.
        for text in list(&flags.text(VALUE_RANGE).replace("::", "\0"), ':') {
            layers.add_range(&text.replace('\0', ":"))?;
        }
        for text in list(flags.text("input_layer_value_files"), ',') {
            layers.add_file(text)?;
        }
        Ok(layers)
    }

    fn named(&mut self, flag: &str, name: &str) -> Result<&mut Layer, Failure> {
        let known = self.0.iter().map(|layer| layer.name.clone()).collect::<Vec<_>>().join(", ");
        let found = self.0.iter_mut().find(|layer| layer.name == name);
        found.ok_or_else(|| {
            let known = if known.is_empty() { "no input".to_owned() } else { known };
            Failure::usage(format!("--{flag}: \"{name}\" is not in --input_layer, which names {known}"))
        })
    }

    fn add_range(&mut self, text: &str) -> Result<(), Failure> {
        let wrong = || {
            let form = "NAME,LOW,HIGH with LOW up to HIGH; a colon in a name is written \"::\"";
            Failure::usage(format!("--{VALUE_RANGE}: \"{text}\" is not {form}"))
        };
        let [name, low, high] = text.split(',').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
        let (Some(low), Some(high)) = (number(low), number(high)) else { return Err(wrong()) };
        if low > high {
            return Err(wrong());
        }
        self.named(VALUE_RANGE, name)?.range = Some(Range { low, high });
        Ok(())
    }

    fn add_file(&mut self, text: &str) -> Result<(), Failure> {
        const FLAG: &str = "input_layer_value_files";
        // A colon that belongs to the name is doubled.
        let escaped = text.replace("::", "\0");
        let (name, file) = escaped.split_once(':').ok_or_else(|| {
            Failure::usage(format!("--{FLAG}: \"{text}\" is not NAME:FILE; a colon in a name is written \"::\""))
        })?;
        let [name, file] = [name, file].map(|part| part.replace('\0', ":"));
        self.named(FLAG, &name)?.file = Some(file);
        Ok(())
    }

    /// Returns the paths of the files with the elements of layers.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|layer| layer.file.as_deref())
    }

    /// Returns the layer of each input of the subgraph: by name if all names are inputs, else in order.
    fn of_inputs(&self, entry: &Entry<'_>) -> Result<Vec<Option<&Layer>>, Failure> {
        let subgraph = entry.subgraph();
        let count = subgraph.inputs.len();
        if self.0.is_empty() {
            return Ok(vec![None; count]);
        }
        if self.0.len() != count {
            let text = format!("--input_layer names {} inputs, and the model has {count}; name all", self.0.len());
            return Err(Failure::usage(text).at(entry.name));
        }
        let names: Vec<&str> = subgraph.inputs.iter().map(|tensor| subgraph.tensors[*tensor].name.as_str()).collect();
        let by_name = |name: &&str| self.0.iter().find(|layer| layer.name == **name);
        let found: Option<Vec<Option<&Layer>>> = names.iter().map(|name| by_name(name).map(Some)).collect();
        Ok(found.unwrap_or_else(|| self.0.iter().map(Some).collect()))
    }

    /// Returns what to say of names that inputs do not have, as TensorFlow Lite's tool does: such layers are taken in order.
    pub(super) fn notes(&self, entry: &Entry<'_>) -> Result<Vec<String>, Failure> {
        let subgraph = entry.subgraph();
        let tensors = subgraph.inputs.iter().map(|tensor| (tensor, &subgraph.tensors[*tensor].name));
        let named = tensors.zip(self.of_inputs(entry)?);
        let differs = named.filter_map(|((tensor, name), layer)| Some((tensor, name, &layer?.name)));
        let differs = differs.filter(|(_, name, called)| name != called);
        let note = |(tensor, name, called)| format!("Tensor # {tensor} is named {name} but flags call it {called}");
        Ok(differs.map(note).collect())
    }

    /// Returns the shapes of the inputs that get another one than in the file.
    pub(super) fn shapes(&self, entry: &Entry<'_>) -> Result<Shapes, Failure> {
        let subgraph = entry.subgraph();
        let layers = self.of_inputs(entry)?.into_iter().enumerate();
        let changed = layers.filter_map(|(index, layer)| {
            let layer = layer?;
            let own = subgraph.tensors[subgraph.inputs[index]].shape.extents();
            (own != layer.shape).then(|| (index, layer.shape.clone()))
        });
        Ok(changed.collect())
    }

    /// Fills all inputs, from files or with random numbers.
    pub(super) fn fill(&self, entry: &Entry<'_>, to: &mut Interpreter) -> Result<(), Failure> {
        let mut random = Twister::new();
        for (index, layer) in self.of_inputs(entry)?.into_iter().enumerate() {
            let info = to.inputs()[index].clone();
            let bytes = match layer.and_then(|layer| layer.file.as_deref()) {
                Some(file) => of_file(Path::new(file), &info)?,
                None => at_random(&mut random, &info, layer.and_then(|layer| layer.range))?,
            };
            to.write_bytes(index, &bytes)?;
        }
        Ok(())
    }
}

fn list(text: &str, separator: char) -> Vec<&str> {
    text.split(separator).map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Reads the elements of an input: their bytes, or for strings texts with a zero after each.
fn of_file(path: &Path, info: &TensorInfo) -> Result<Vec<u8>, Failure> {
    let bytes = files::read(path)?;
    let name = Console::plain().name(&info.name);
    if info.data_type == DataType::String {
        let content = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
        let texts: Vec<&[u8]> = content.split(|byte| *byte == 0).collect();
        let elements = info.shape.elements();
        if texts.len() != elements {
            let text = format!("it holds {} texts, and input \"{name}\" takes {elements}", texts.len());
            return Err(Failure::usage(text).at(path.display()));
        }
        return encoded(texts.into_iter());
    }
    let expected = info.data_type.byte_size(info.shape.elements()).unwrap_or(0);
    if bytes.len() != expected {
        let text = format!(
            "it has {} bytes, and input \"{name}\" of type {} and shape {} takes {expected}",
            bytes.len(),
            info.data_type,
            info.shape
        );
        return Err(Failure::usage(text).at(path.display()));
    }
    Ok(bytes)
}

/// Returns the bytes of a tensor with these strings.
fn encoded<'a>(texts: impl ExactSizeIterator<Item = &'a [u8]> + Clone) -> Result<Vec<u8>, Failure> {
    strings::encoded(texts)
        .ok_or_else(|| Failure::usage("strings of more than 2 GiB or than the memory cannot be an input"))
}

fn at_random(random: &mut Twister, info: &TensorInfo, range: Option<Range>) -> Result<Vec<u8>, Failure> {
    let elements = info.shape.elements();
    if info.data_type == DataType::String {
        return encoded(std::iter::repeat_n(&b"text"[..], elements));
    }
    if let Some(range) = range {
        range.check(info.data_type).map_err(|reason| {
            let name = Console::plain().name(&info.name);
            let [low, high] = [range.low, range.high].map(short);
            Failure::usage(format!("--{VALUE_RANGE}: {low} to {high} does not fit input \"{name}\": {reason}"))
        })?;
    }
    let range = range.or_else(|| Range::usual(info.data_type));
    range.and_then(|range| random.bytes(info.data_type, elements, range)).ok_or_else(|| {
        let name = Console::plain().name(&info.name);
        let text = format!("input \"{name}\" of type {} can't be filled with random numbers", info.data_type);
        Failure::unsupported(format!("{text}; give it a file with --input_layer_value_files"))
    })
}
