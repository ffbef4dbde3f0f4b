//! Pictures: a scene to try models on, conversion to the floats that models take, and drawing.

use image::imageops::FilterType;
use image::{Rgb, RgbImage, imageops};

use crate::Result;

/// Opens a picture, or draws the scene if no path is given.
///
/// # Errors
///
/// If the file cannot be read or is no picture.
pub fn open(path: Option<&str>) -> Result<RgbImage> {
    Ok(match path {
        Some(path) => image::open(path)?.to_rgb8(),
        None => scene(480, 320),
    })
}

/// Draws a scene: a meadow below a sky, with a sun and a house.
#[must_use]
pub fn scene(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |column, row| {
        let (x, y) = (column as f32 / width as f32, row as f32 / height as f32);
        let is_sun = (x - 0.8).hypot((y - 0.2) * height as f32 / width as f32) < 0.07;
        let is_roof = (0.3..0.45).contains(&y) && (x - 0.35).abs() < (y - 0.3) * 1.2;
        let is_wall = (0.45..0.75).contains(&y) && (x - 0.35).abs() < 0.15;
        let is_meadow = y > 0.65 + 0.05 * (x * 9.0).sin();
        match () {
            () if is_sun => Rgb([255, 221, 64]),
            () if is_roof => Rgb([176, 58, 46]),
            () if is_wall => Rgb([236, 224, 200]),
            () if is_meadow => Rgb([72, (120.0 + 100.0 * y) as u8, 60]),
            () => Rgb([(120.0 + 120.0 * y) as u8, (170.0 + 70.0 * y) as u8, 240]),
        }
    })
}

/// Scales a picture to a model's input of the shape `[1, height, width, 3]`, with values in [-1, 1].
///
/// # Errors
///
/// If the shape is not that of one picture in three colours.
pub fn floats(picture: &RgbImage, shape: &[usize]) -> Result<Vec<f32>> {
    let [1, height, width, 3] = *shape else {
        return Err(format!("an input of shape {shape:?} is no picture").into());
    };
    let scaled = imageops::resize(picture, u32::try_from(width)?, u32::try_from(height)?, FilterType::Triangle);
    Ok(scaled.into_raw().into_iter().map(|value| f32::from(value) / 127.5 - 1.0).collect())
}

/// Returns the colour of a class. Neighbouring classes have colours that are easy to tell apart.
#[must_use]
pub fn colour(class: usize) -> Rgb<u8> {
    const COLOURS: [[u8; 3]; 8] = [
        [230, 57, 70],
        [29, 111, 165],
        [255, 183, 3],
        [42, 157, 143],
        [131, 56, 236],
        [244, 140, 6],
        [6, 214, 160],
        [239, 71, 161],
    ];
    Rgb(COLOURS[class % COLOURS.len()])
}

/// Draws the outline of a box, three pixels wide. `edges` are top, left, bottom and right as fractions of height and
/// width; what is outside of the picture is left out.
pub fn outline(picture: &mut RgbImage, edges: [f32; 4], colour: Rgb<u8>) {
    let (width, height) = (i64::from(picture.width()), i64::from(picture.height()));
    let place = |edge: f32, extent: i64| (edge * extent as f32) as i64;
    let [top, left, bottom, right] = edges;
    let (top, bottom) = (place(top, height), place(bottom, height));
    let (left, right) = (place(left, width), place(right, width));
    for (column, row, pixel) in picture.enumerate_pixels_mut() {
        let (x, y) = (i64::from(column), i64::from(row));
        let depth = [x - left, right - x, y - top, bottom - y].into_iter().min().unwrap_or(0);
        if (0..3).contains(&depth) {
            *pixel = colour;
        }
    }
}

/// Mixes a pixel with a colour, half and half.
pub fn tint(pixel: &mut Rgb<u8>, colour: Rgb<u8>) {
    pixel.0.iter_mut().zip(colour.0).for_each(|(value, other)| *value = value.midpoint(other));
}
