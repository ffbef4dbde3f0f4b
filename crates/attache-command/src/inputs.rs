//! Fills a model's inputs with the arrays and pictures that the command line names, or with random numbers.

use std::ffi::OsString;
use std::path::Path;

use attache::{DataType, Interpreter, TensorInfo};
use clap::Args;
use serde_json::{Value, json};

use crate::arguments::entry::Entry;
use crate::arguments::{assign, divisor, finite, named, whole};
use crate::console::Console;
use crate::device::Device;
use crate::failure::{Failure, Kind};
use crate::io::array::Array;
use crate::io::files;
use crate::io::npy;
use crate::io::picture::{Filled, Input, Picture, Scaling};
use crate::io::random::Random;
use crate::io::texts;

// A doc comment on this structure would replace the descriptions of the commands that take it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct InputArguments {
    /// A .npy file, a picture (PNG, JPEG) or, for strings, a text with a line for each, by the input's order or name; inputs
    /// without a file are random
    #[arg(short, long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<OsString>,
    #[command(flatten)]
    scaling: ScalingArguments,
    /// Seed of random inputs [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64, 0>)]
    seed: Option<u64>,
}

// The same holds here.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ScalingArguments {
    /// Value to subtract from a picture's values, 0 to 255 [default: from the model's metadata, else 127.5; see --std]
    #[arg(long, value_name = "X", requires = "std", allow_hyphen_values = true, value_parser = finite::<f32>)]
    mean: Option<f32>,
    /// Value by which a picture's values are then divided [default: from the model's metadata, else 127.5]
    ///
    /// For an integer input, (value - mean) / std is then quantized with the input's scale and zero point, or rounded
    /// if it has none. If neither the command line nor the metadata gives a mean, uint8 takes the values unchanged,
    /// int8 takes them minus 128, and int16 takes -1 to 1, quantized.
    #[arg(long, value_name = "Y", requires = "mean", allow_hyphen_values = true, value_parser = divisor)]
    std: Option<f32>,
}

impl ScalingArguments {
    /// Returns the normalization for pictures of an input: from the command line, or else from the model; `None` if
    /// neither has one.
    pub(crate) fn scaling(
        &self,
        console: &Console,
        entry: &Entry<'_>,
        index: usize,
        data_type: DataType,
        channels: usize,
    ) -> Option<Scaling> {
        if let (Some(mean), Some(std)) = (self.mean, self.std) {
            return Some(Scaling { mean: vec![mean], std: vec![std] });
        }
        // Only the first subgraph has metadata.
        let own = entry.model.normalization(index).filter(|_| entry.index == 0)?;
        let own = Scaling { mean: own.mean, std: own.std };
        if !own.is_sound(channels) {
            console.warn(&format!(
                "the model's metadata has no usable mean and deviation for input {index}, so they are ignored; --mean and \
                --std give others"
            ));
            return None;
        }
        // In the metadata of quantized models, the identity means that values are stored unchanged.
        Some(own).filter(|own| is_float(data_type) || !own.is_identity())
    }
}

/// What filling inputs depends on: the subgraph that runs, the device, and the console for warnings.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) console: &'a Console,
    pub(crate) entry: &'a Entry<'a>,
    pub(crate) device: &'a Device,
}

/// Where the elements of each input are from: a file, or the random generator with `seed`.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Name of each input and the path of its file; `None` for random inputs.
    inputs: Vec<(String, Option<String>)>,
    seed: u64,
    /// The first input that is a picture.
    pub(crate) picture: Option<Picture<u8>>,
    /// Whether a picture was scaled to -1 to 1 for an input of floats because nothing names another range.
    is_range_assumed: bool,
}

impl Given {
    /// Returns the sources of inputs that are all random, from this seed.
    pub(crate) fn at_random(interpreter: &Interpreter, seed: u64) -> Self {
        let inputs = interpreter.inputs().iter().map(|info| (info.name.clone(), None)).collect();
        Self { inputs, seed, picture: None, is_range_assumed: false }
    }

    /// Returns the indices of the inputs for which no file was given, which are filled with random numbers.
    pub(crate) fn random(&self) -> Vec<usize> {
        (0..self.inputs.len()).filter(|index| self.inputs[*index].1.is_none()).collect()
    }

    /// Returns the failure of a run on these inputs with the name of the model and, where the inputs may be the cause,
    /// a remedy.
    pub(crate) fn explain(&self, model: &str, failure: Failure) -> Failure {
        let remedy = match (failure.kind, self.random().is_empty()) {
            (Kind::Model, true) => "; check the values of the inputs",
            (Kind::Model, false) => "; inputs are random numbers, which may not suit it: --input FILE gives others",
            (Kind::Unsupported, _) => "",
            _ => return failure,
        };
        let failure = failure.at(model);
        Failure { message: failure.message + remedy, ..failure }
    }

    /// Describes the sources in one line, and an assumed range in a second one; `None` for a model without inputs.
    pub(crate) fn text(&self, console: &Console) -> Option<String> {
        let random = format!("random numbers, seed {}", self.seed);
        if self.random().len() == self.inputs.len() {
            return (!self.inputs.is_empty()).then(|| format!("inputs: {random}"));
        }
        let input = |(name, file): &(String, Option<String>)| {
            format!("{} from {}", console.name(name), file.as_ref().unwrap_or(&random))
        };
        let sources = self.inputs.iter().map(input).collect::<Vec<_>>().join("; ");
        let range = match self.is_range_assumed {
            true => {
                "\nvalues of pictures are scaled to -1 to 1, as the model names no range; --mean and --std give another"
            }
            false => "",
        };
        Some(format!("inputs: {sources}{range}"))
    }

    /// Returns a list with one JSON object per input: its name, and its file or seed.
    pub(crate) fn json(&self) -> Value {
        let input = |(name, file): &(String, Option<String>)| json!({ "name": name, "file": file, "seed": file.is_none().then_some(self.seed) });
        self.inputs.iter().map(input).collect()
    }
}

/// A picture that was read for an input, and whether the range of its values had to be assumed.
type ReadPicture = (Picture<u8>, bool);

impl InputArguments {
    /// Returns the paths that the values of `--input` may mean: what follows a name, and the whole.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.input.iter().flat_map(|text| [named(text).1, text.as_os_str()]).map(Path::new)
    }

    /// Returns the seed of random inputs, 0 by default.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or(0)
    }

    /// Writes the inputs for which files are given and returns the sources of all inputs. The caller fills
    /// the random ones.
    pub(crate) fn fill(&self, setting: Setting<'_>, to: &mut Interpreter) -> Result<Given, Failure> {
        let mut given = Given::at_random(to, self.seed());
        let missing = |name: &str| setting.entry.no_input(name);
        let files = assign(("--input", &self.input), to.inputs().len(), |name| to.input_index(name), missing)?;
        let mut arrays = Vec::with_capacity(files.len());
        let mut pictures = 0;
        for (index, file) in files {
            let path = Path::new(file);
            let at_path = |failure: Failure| failure.at(path.display());
            let bytes = files::read(path)?;
            let input = (index, &to.inputs()[index]);
            pictures += usize::from(!npy::is_array(&bytes) && input.1.data_type != DataType::String);
            let (array, picture) = self.array(setting, input, path, &bytes).map_err(at_path)?;
            if let Some((picture, is_range_assumed)) = picture {
                given.picture.get_or_insert(picture);
                given.is_range_assumed |= is_range_assumed;
            }
            given.inputs[index].1 = Some(path.display().to_string());
            arrays.push((index, path, array));
        }
        self.check_use(setting.console, pictures, &given)?;
        check_shapes(setting, to, &arrays)?;
        for (index, _, array) in &arrays {
            to.write_bytes(*index, &array.bytes)?;
        }
        Ok(given)
    }

    /// Writes all inputs: those for which files are given, and the others with random numbers. Returns the
    /// sources.
    pub(crate) fn fill_all(&self, setting: Setting<'_>, to: &mut Interpreter) -> Result<Given, Failure> {
        let given = self.fill(setting, to)?;
        let mut random = Random::new(self.seed());
        given.random().into_iter().try_for_each(|index| fill_at_random(to, index, &mut random))?;
        Ok(given)
    }

    /// Returns an error if `--mean` and `--std` are given without a picture; warns if `--seed` is given
    /// without a random input.
    fn check_use(&self, console: &Console, pictures: usize, given: &Given) -> Result<(), Failure> {
        if self.scaling.std.is_some() && pictures == 0 {
            let text =
                "--mean and --std are for pictures, and no --input is one; leave them out, or give a PNG or JPEG file";
            return Err(Failure::usage(text));
        }
        if self.seed.is_some() && given.random().is_empty() {
            console.warn("--seed changes nothing: no input is random");
        }
        Ok(())
    }

    /// Converts the bytes of a `.npy` file or of a picture to an input and checks the type of the elements.
    /// Also returns the picture, and whether the range of its values had to be assumed.
    fn array(
        &self,
        setting: Setting<'_>,
        input: (usize, &TensorInfo),
        path: &Path,
        bytes: &[u8],
    ) -> Result<(Array, Option<ReadPicture>), Failure> {
        let is_array = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
        let (array, picture) = if is_array || npy::is_array(bytes) {
            (npy::decode(bytes)?, None)
        } else if input.1.data_type == DataType::String {
            (texts::lines(bytes, &input.1.shape)?, None)
        } else {
            let picture = Picture::upright(bytes)?;
            let (array, is_range_assumed) = self.picture(setting, input, &picture)?;
            (array, Some((picture, is_range_assumed)))
        };
        let data_type = input.1.data_type;
        if array.data_type != data_type {
            let reason = format!("the array is of type {}, the input of type {data_type}", array.data_type);
            return Err(Failure::usage(format!("{reason}; save array.astype(\"{}\")", numpy_name(data_type))));
        }
        Ok((array, picture))
    }

    /// Converts a picture to the elements of an input. Warns if most of them had to be clipped. Also returns whether
    /// floats were scaled to -1 to 1 because nothing names another range.
    fn picture(
        &self,
        setting: Setting<'_>,
        (index, info): (usize, &TensorInfo),
        picture: &Picture<u8>,
    ) -> Result<(Array, bool), Failure> {
        let TensorInfo { shape, data_type, quantization, .. } = info;
        let mut input = Input { shape, data_type: *data_type, quantization: quantization.as_ref(), scaling: None };
        let [batch, .., channels] = input.extents()?;
        check_size(setting, (index, info), picture, [batch, channels])?;
        input.scaling = self.scaling.scaling(setting.console, setting.entry, index, *data_type, channels);
        let scales = quantization.as_ref().map_or(0, |quantization| quantization.scale.len());
        if scales > 1 {
            return Err(Failure::unsupported(format!("input {index} has {scales} scales; give a .npy file")));
        }
        let Filled { array, clipped } = picture.tensor(&input)?;
        if clipped * 2 > shape.elements() {
            let percent = clipped * 100 / shape.elements();
            setting.console.warn(&format!(
                "{percent} % of the picture's values are beyond what input {index} can store once they are quantized, and \
                were cut off; check --mean and --std"
            ));
        }
        Ok((array, is_float(*data_type) && input.scaling.is_none()))
    }
}

/// Returns the name of the type in numpy.
fn numpy_name(data_type: DataType) -> String {
    match data_type {
        DataType::String => "str".to_owned(),
        data_type => data_type.name().to_lowercase(),
    }
}

fn is_float(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32)
}

/// Returns an error if the input takes pictures of any size, but has only the placeholder size of one pixel
/// from the file because `--shape` does not give another.
fn check_size(
    setting: Setting<'_>,
    (index, info): (usize, &TensorInfo),
    picture: &Picture<u8>,
    [batch, channels]: [usize; 2],
) -> Result<(), Failure> {
    let rank = info.shape.rank();
    let any_size =
        |signature: &Vec<i32>| rank >= 3 && signature.len() == rank && signature[rank - 3..rank - 1] == [-1, -1];
    let is_open = info.shape_signature.as_ref().is_some_and(any_size) && info.shape.elements() == batch * channels;
    let Setting { entry, .. } = setting;
    let mut shapes = entry.shapes.clone();
    if !is_open || shapes.iter().any(|(input, _)| *input == index) {
        return Ok(());
    }
    let mut shape = info.shape.to_vec();
    shape[rank - 3..rank - 1].copy_from_slice(&[picture.height, picture.width]);
    shapes.push((index, shape));
    let reason = format!("the model takes pictures of any size, and its file holds none for input {index}");
    let remedy = match setting.device.cpu_error(&entry.with_shapes(shapes.clone()), fill_all) {
        None => format!("{} is the picture's own", entry.options(&shapes)),
        Some(_) => "give one with --shape".to_owned(),
    };
    Err(Failure::usage(format!("{reason}; {remedy}")))
}

/// Returns an error if arrays have other shapes than their inputs, with a remedy for all of them at once.
/// Options are proposed only after the model accepted them in a trial.
fn check_shapes(setting: Setting<'_>, to: &Interpreter, arrays: &[(usize, &Path, Array)]) -> Result<(), Failure> {
    let others: Vec<_> = arrays.iter().filter(|(index, _, array)| array.shape != to.inputs()[*index].shape).collect();
    let Some((first, file, array)) = others.first() else { return Ok(()) };
    let reason = |(index, file, array): &&(usize, &Path, Array)| {
        let file = file.display();
        format!("{file}: the array has shape {}, input {index} has {}", array.shape, to.inputs()[*index].shape)
    };
    let reasons = others.iter().map(reason).collect::<Vec<_>>().join("; ");
    let Setting { entry, .. } = setting;
    let mut shapes = entry.shapes.clone();
    shapes.retain(|(input, _)| others.iter().all(|(index, ..)| index != input));
    shapes.extend(others.iter().map(|(index, _, array)| (*index, array.shape.to_vec())));
    shapes.sort_unstable();
    let fill = |interpreter: &mut Interpreter| {
        fill_all(interpreter)?;
        arrays.iter().try_for_each(|(index, _, array)| Ok(interpreter.write_bytes(*index, &array.bytes)?))
    };
    let wanted = &to.inputs()[*first].shape;
    let remedy = match setting.device.cpu_error(&entry.with_shapes(shapes.clone()), fill) {
        None => {
            let instead = if entry.shapes.is_empty() { "" } else { " and no other --shape" };
            format!("{}{instead} gives inputs the shapes of arrays", entry.options(&shapes))
        }
        Some(_) if array.shape.elements() == wanted.elements() => {
            let extents: Vec<_> = wanted.iter().map(usize::to_string).collect();
            format!("the model takes no such shape, so save array.reshape({})", extents.join(", "))
        }
        Some(failure) => {
            let reason = failure.message.replace('\n', " ").replace("--shape ", "");
            format!("the model takes no such shape, so give {} another ({reason})", file.display())
        }
    };
    Err(Failure::usage(format!("{reasons}; {remedy}")))
}

/// Fills every input with random numbers.
fn fill_all(to: &mut Interpreter) -> Result<(), Failure> {
    let mut random = Random::new(0);
    (0..to.inputs().len()).try_for_each(|index| fill_at_random(to, index, &mut random))
}

/// Fills an input with uniform random numbers, or with random words.
fn fill_at_random(to: &mut Interpreter, index: usize, random: &mut Random) -> Result<(), Failure> {
    let info = &to.inputs()[index];
    if info.data_type == DataType::String {
        require_memory(info.shape.elements().saturating_mul(BYTES_OF_A_WORD))?;
        let words = random.words(info.shape.elements());
        return Ok(to.write_strings(index, &words)?);
    }
    fill_with(to, index, |data_type, count| random.bytes(data_type, count))
}

/// An upper bound of the memory for a random word, with the allocator's share.
const BYTES_OF_A_WORD: usize = 64;

/// Fails unless there is memory for random elements of this size. A file may state any shape.
fn require_memory(bytes: usize) -> Result<(), Failure> {
    let failed = |_| Failure::unsupported(format!("there is no memory for {bytes} bytes of random numbers"));
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(failed)
}

/// Fills an input with Gaussian random numbers around the middle of its type's range.
pub(crate) fn fill_around_the_middle(to: &mut Interpreter, index: usize, random: &mut Random) -> Result<(), Failure> {
    fill_with(to, index, |data_type, count| random.gaussian_bytes(data_type, count))
}

fn fill_with(
    to: &mut Interpreter,
    index: usize,
    bytes: impl FnOnce(DataType, usize) -> Option<Vec<u8>>,
) -> Result<(), Failure> {
    let info = &to.inputs()[index];
    require_memory(info.data_type.byte_size(info.shape.elements()).unwrap_or(0))?;
    let bytes = bytes(info.data_type, info.shape.elements()).ok_or_else(|| {
        let name = Console::plain().name(&info.name);
        let reason =
            format!("input {index} (\"{name}\") of type {} can't be filled with random numbers", info.data_type);
        Failure::unsupported(format!("{reason}; give it a file with --input"))
    })?;
    Ok(to.write_bytes(index, &bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_need_memory() {
        assert!(require_memory(1 << 20).is_ok());
        assert!(require_memory(usize::MAX).is_err());
    }
}
