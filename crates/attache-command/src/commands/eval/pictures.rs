//! The pictures of a data set: a folder of them, and how each becomes an input.

use std::fs;
use std::path::{Path, PathBuf};

use attache::{DataType, TensorInfo};

use crate::failure::Failure;
use crate::io::array::Array;
use crate::io::files;
use crate::io::picture::{Grid, Input, Picture, Scaling};

/// Extensions of pictures, in lower case. `rgb8` is for files of nothing but red, green and blue bytes.
const EXTENSIONS: [&str; 4] = ["jpg", "jpeg", "png", "rgb8"];

/// Whether a name is that of a picture.
pub(crate) fn is_picture(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension.to_lowercase().as_str()))
}

/// Returns the paths of the pictures of a folder, sorted by their names.
pub(crate) fn of_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| match folder.is_file() {
        true => Failure::usage("this is a file; name the folder of the pictures").at(folder.display()),
        false => files::unreadable(folder, &error),
    })?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| files::unreadable(folder, &error))?.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(is_picture) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let text = "there is no picture in it (.jpg, .jpeg, .png or .rgb8); name another folder";
        return Err(Failure::usage(text).at(folder.display()));
    }
    paths.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    Ok(paths)
}

/// Returns the name of a picture in its folder.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

/// How pictures become inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Preparation {
    /// The fraction of the shorter side that the square in the middle has; `None` for the whole picture.
    pub(crate) crop: Option<f64>,
    /// The normalization; `None` for −1 to 1, and for integers the values as they are.
    pub(crate) scaling: Option<Scaling>,
}

/// A picture as an input, with its size in the file.
pub(crate) struct Prepared {
    pub(crate) array: Array,
    pub(crate) height: usize,
    pub(crate) width: usize,
}

/// Checks that an input takes pictures. Returns its height and width.
pub(crate) fn size(info: &TensorInfo, model: &str) -> Result<[usize; 2], Failure> {
    let input = Input {
        shape: &info.shape,
        data_type: info.data_type,
        quantization: info.quantization.as_ref(),
        scaling: None,
    };
    let is_taken = matches!(
        info.data_type,
        DataType::Float32 | DataType::Float16 | DataType::UInt8 | DataType::Int8 | DataType::Int16
    );
    match input.extents() {
        Ok([1, height, width, _]) if is_taken => Ok([height, width]),
        _ => {
            let text = format!("an input of type {} and shape {} takes no single picture", info.data_type, info.shape);
            Err(Failure::unsupported(format!("{text}; it must be [1, height, width, channels]")).at(model))
        }
    }
}

impl Preparation {
    /// Reads a picture and makes an input of it. Errors name the file.
    pub(crate) fn input(&self, path: &Path, info: &TensorInfo) -> Result<Prepared, Failure> {
        self.unnamed(path, info).map_err(|failure| {
            let named = failure.message.starts_with(&path.display().to_string());
            if named { failure } else { failure.at(path.display()) }
        })
    }

    fn unnamed(&self, path: &Path, info: &TensorInfo) -> Result<Prepared, Failure> {
        let input = Input {
            shape: &info.shape,
            data_type: info.data_type,
            quantization: info.quantization.as_ref(),
            scaling: self.scaling.clone(),
        };
        let [_, height, width, _] = input.extents()?;
        let bytes = files::read(path)?;
        let is_raw = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("rgb8"));
        let picture = if is_raw { raw(&bytes, [height, width])? } else { Picture::decode(&bytes)? };
        let (own_height, own_width) = (picture.height, picture.width);
        let is_fitting = is_raw && [own_height, own_width] == [height, width];
        let cropped = self.crop.filter(|_| !is_fitting).map(|fraction| picture.centre(fraction));
        let resized = cropped.unwrap_or(picture).stretched_on(height, width, Grid::Corners);
        Ok(Prepared { array: resized.tensor(&input)?.array, height: own_height, width: own_width })
    }
}

/// Returns the picture of a file without a header: of the input's own size, or else a square.
fn raw(bytes: &[u8], [height, width]: [usize; 2]) -> Result<Picture<u8>, Failure> {
    if bytes.len() == height * width * 3 {
        return Ok(Picture { height, width, values: bytes.to_vec() });
    }
    let side = ((bytes.len() / 3) as f64).sqrt().round() as usize;
    if side > 0 && side * side * 3 == bytes.len() {
        return Ok(Picture { height: side, width: side, values: bytes.to_vec() });
    }
    let text = format!("it has {} bytes, which is neither {width} × {height} pixels nor a square", bytes.len());
    Err(Failure::usage(format!("{text}; save it as PNG")))
}

#[cfg(test)]
mod tests {
    use attache::Shape;

    use super::*;

    fn info(shape: &[usize]) -> TensorInfo {
        TensorInfo::new("x", DataType::Float32, Shape::from(shape))
    }

    #[test]
    fn a_folder_is_sorted_by_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.JPEG", "a.png", "c.rgb8", "labels.txt", "d.jpg"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        let names: Vec<String> = of_folder(folder.path()).unwrap().iter().map(|path| super::name(path)).collect();
        assert_eq!(names, ["a.png", "b.JPEG", "c.rgb8", "d.jpg"]);
        assert!(of_folder(&folder.path().join("a.png")).unwrap_err().message.contains("this is a file"));
        assert!(of_folder(&folder.path().join("no")).is_err());
    }

    #[test]
    fn inputs_of_one_picture_are_taken() {
        let cases = [
            (&[1, 5, 7, 3][..], Some([5, 7])),
            (&[1, 28, 28], Some([28, 28])),
            (&[28, 28], Some([28, 28])),
            (&[28, 28, 1], Some([28, 28])),
            (&[2, 5, 7, 3], None),
            (&[1, 100], None),
        ];
        for (shape, expected) in cases {
            assert_eq!(size(&info(shape), "m").ok(), expected, "{shape:?}");
        }
    }

    #[test]
    fn raw_pictures_are_squares_or_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rgb8");
        let preparation = Preparation { crop: Some(0.5), scaling: None };
        let floats = |path: &Path| {
            let bytes = preparation.input(path, &info(&[1, 2, 1, 3])).unwrap().array.bytes;
            bytes.chunks_exact(4).map(|it| f32::from_ne_bytes(it.try_into().unwrap())).collect::<Vec<_>>()
        };
        fs::write(&path, [0, 0, 0, 255, 255, 255]).unwrap();
        assert_eq!(floats(&path), [-1.0, -1.0, -1.0, 1.0, 1.0, 1.0], "a picture that fits is not cropped");
        fs::write(&path, [vec![255u8; 16 * 3]].concat()).unwrap();
        assert_eq!(floats(&path), [1.0; 6]);
        fs::write(&path, [0u8; 7]).unwrap();
        let message = preparation.input(&path, &info(&[1, 2, 1, 3])).err().unwrap().message;
        assert!(message.contains("a.rgb8: it has 7 bytes"), "{message}");
    }
}
