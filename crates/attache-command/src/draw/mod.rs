//! [`Canvas`], a picture to draw on: boxes, lines, points, coloured areas and text.
//!
//! Positions are fractions of the picture's height and width, from the top left corner. Whatever lies beyond
//! the picture is cut off.

mod font;

use std::io::Cursor;
use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};

use crate::failure::Failure;
use crate::io::picture::Picture;

/// A colour: red, green and blue.
pub(crate) type Color = [u8; 3];

const WHITE: Color = [255; 3];
const BLACK: Color = [0; 3];
/// Smaller pictures are enlarged until their longer side has this many pixels, so that text fits.
const LEAST_SIDE: usize = 480;
/// Pixels of the longer side for each pixel of the thickness of lines.
const SIDE_PER_PIXEL: usize = 400;
/// How much of the background a panel of text lets through.
const PANEL_OPACITY: f32 = 0.65;

/// Returns the colour of a class. Neighbouring classes have colours that differ clearly.
pub(crate) fn color(class: usize) -> Color {
    // Steps of the golden ratio around the circle of hues never come close to each other soon.
    let hue = (class as f64 * 0.618_034 + 0.02).fract() * 6.0;
    let lightness = if class.is_multiple_of(2) { 1.0 } else { 0.82 };
    let channel = |offset: f64| {
        let along = (offset + hue) % 6.0;
        let value = 1.0 - 0.85 * along.min(4.0 - along).clamp(0.0, 1.0);
        (255.0 * value * lightness).round() as u8
    };
    [channel(5.0), channel(3.0), channel(1.0)]
}

/// A line of a panel: its text, and the colour of the chip before it, if it has one.
pub(crate) type PanelLine = (String, Option<Color>);

/// A picture to draw on.
pub(crate) struct Canvas {
    image: RgbImage,
    /// Thickness of lines, and size of the font's pixels.
    pen: usize,
}

impl Canvas {
    /// Creates a canvas that shows the picture, enlarged if it is small.
    pub(crate) fn new<V: Copy + Into<f32>>(picture: &Picture<V>) -> Self {
        let side = picture.height.max(picture.width);
        let factor = LEAST_SIDE.div_ceil(side);
        match factor {
            1 => Self::of(picture),
            _ => Self::of(&picture.stretched(picture.height * factor, picture.width * factor)),
        }
    }

    /// Creates a canvas that shows the picture in its own size.
    pub(crate) fn of<V: Copy + Into<f32>>(picture: &Picture<V>) -> Self {
        let values = picture.values.iter().map(|value| (*value).into().round() as u8).collect();
        let image = RgbImage::from_raw(picture.width as u32, picture.height as u32, values);
        let image = image.expect("a picture has three values for each pixel");
        Self { image, pen: picture.height.max(picture.width).div_ceil(SIDE_PER_PIXEL) }
    }

    fn height(&self) -> usize {
        self.image.height() as usize
    }

    fn width(&self) -> usize {
        self.image.width() as usize
    }

    /// Returns the pixels of a position.
    fn place(&self, [y, x]: [f64; 2]) -> [f64; 2] {
        [y * self.height() as f64, x * self.width() as f64]
    }

    /// Mixes the colour into the pixels of a rectangle, given by its first row and column and its height and
    /// width.
    fn fill(&mut self, [top, left]: [f64; 2], [height, width]: [usize; 2], color: Color, opacity: f32) {
        let clip = |from: f64, size: usize, most: usize| {
            let from = from.clamp(-1e9, 1e9) as i64;
            from.clamp(0, most as i64) as usize..(from + size as i64).clamp(0, most as i64) as usize
        };
        let (rows, columns) = (clip(top, height, self.height()), clip(left, width, self.width()));
        for y in rows {
            for x in columns.clone() {
                let Rgb(below) = self.image.get_pixel_mut(x as u32, y as u32);
                for (below, color) in below.iter_mut().zip(color) {
                    *below = (f32::from(*below) + (f32::from(color) - f32::from(*below)) * opacity).round() as u8;
                }
            }
        }
    }

    /// Draws the outline of a box, given by its top, left, bottom and right edge.
    pub(crate) fn outline(&mut self, edges: [f64; 4], color: Color) {
        let [y0, x0] = self.place([edges[0], edges[1]]);
        let [y1, x1] = self.place([edges[2], edges[3]]);
        let thickness = self.pen + 1;
        // Edges beyond the picture stay beyond it.
        let near = |at: f64, most: usize| at.clamp(-(thickness as f64), (most + thickness) as f64);
        let [y0, y1] = [y0, y1].map(|y| near(y, self.height()));
        let [x0, x1] = [x0, x1].map(|x| near(x, self.width()));
        let (height, width) = ((y1 - y0).max(0.0) as usize, (x1 - x0).max(0.0) as usize);
        let (across, down) = ([thickness.min(height), width], [height, thickness.min(width)]);
        let inner = thickness as f64;
        for (corner, size) in
            [([y0, x0], across), ([y1 - inner, x0], across), ([y0, x0], down), ([y0, x1 - inner], down)]
        {
            self.fill(corner, size, color, 1.0);
        }
    }

    /// Draws a disc around a position.
    pub(crate) fn point(&mut self, at: [f64; 2], color: Color, is_small: bool) {
        let radius = if is_small { self.pen as f64 } else { 2.5 * self.pen as f64 };
        self.disc(self.place(at), radius, color);
    }

    fn disc(&mut self, [y, x]: [f64; 2], radius: f64, color: Color) {
        let reach = radius.ceil() as i64;
        for row in -reach..=reach {
            let half = (radius * radius - (row * row) as f64).max(0.0).sqrt();
            if (row.abs() as f64) <= radius {
                self.fill([y + row as f64, x - half], [1, (2.0 * half).round() as usize + 1], color, 1.0);
            }
        }
    }

    /// Draws a line between two positions.
    pub(crate) fn line(&mut self, from: [f64; 2], to: [f64; 2], color: Color) {
        let ([y0, x0], [y1, x1]) = (self.place(from), self.place(to));
        let most = 2 * (self.height() + self.width());
        let steps = (((y1 - y0).abs().max((x1 - x0).abs())).ceil() as usize).clamp(1, most);
        for step in 0..=steps {
            let along = step as f64 / steps as f64;
            self.disc([y0 + (y1 - y0) * along, x0 + (x1 - x0) * along], self.pen as f64, color);
        }
    }

    /// Mixes colours into the whole picture: `paint` returns the colour of a position and its opacity, from 0
    /// to 1.
    pub(crate) fn lay(&mut self, paint: impl Fn([f64; 2]) -> Option<(Color, f32)>) {
        for y in 0..self.height() {
            for x in 0..self.width() {
                let at = [(y as f64 + 0.5) / self.height() as f64, (x as f64 + 0.5) / self.width() as f64];
                if let Some((color, opacity)) = paint(at) {
                    self.fill([y as f64, x as f64], [1, 1], color, opacity);
                }
            }
        }
    }

    /// Writes a text on a background of this colour, above the position if there is room, else below it.
    pub(crate) fn tag(&mut self, at: [f64; 2], text: &str, background: Color) {
        let [y, x] = self.place(at);
        let [height, width] = self.extent(text);
        let top = if y >= height as f64 { y - height as f64 } else { y };
        let left = x.min(self.width() as f64 - width as f64).max(0.0);
        let corner = [top.clamp(0.0, (self.height() as f64 - height as f64).max(0.0)), left];
        self.fill(corner, [height, width], background, 1.0);
        self.text(corner, text, contrast(background));
    }

    /// Writes lines on a dark panel in the top left corner. Lines for which there is no room are replaced by
    /// their number.
    pub(crate) fn panel(&mut self, lines: &[PanelLine]) {
        let [height, _] = self.extent("");
        let most = (self.height() / height).max(1);
        let mut lines = lines.to_vec();
        if lines.len() > most {
            let left_out = lines.len() + 1 - most;
            lines.truncate(most - 1);
            lines.push((format!("and {left_out} more"), None));
        }
        let indent = |line: &PanelLine| if line.1.is_some() { height } else { 0 };
        let width = lines.iter().map(|line| indent(line) + self.extent(&line.0)[1]).max().unwrap_or(0);
        self.fill([0.0, 0.0], [height * lines.len(), width], BLACK, PANEL_OPACITY);
        for (index, line) in lines.iter().enumerate() {
            let (top, margin) = ((index * height) as f64, self.pen);
            if let Some(color) = line.1 {
                let side = height - 2 * margin;
                self.fill([top + margin as f64, margin as f64], [side, side], color, 1.0);
            }
            self.text([top, indent(line) as f64], &line.0, WHITE);
        }
    }

    /// Returns the height and width of a line of text in pixels, with margins.
    fn extent(&self, text: &str) -> [usize; 2] {
        [(font::HEIGHT + 3) * self.pen, (text.chars().count() * (font::WIDTH + 1) + 3) * self.pen]
    }

    fn text(&mut self, [top, left]: [f64; 2], text: &str, color: Color) {
        for (index, character) in text.chars().enumerate() {
            for (row, column) in font::pixels(character) {
                let place = |pixels: usize| ((pixels + 2) * self.pen) as f64;
                let corner = [top + place(row), left + place(index * (font::WIDTH + 1) + column)];
                self.fill(corner, [self.pen, self.pen], color, 1.0);
            }
        }
    }

    /// Returns the canvas as a file of this format.
    pub(crate) fn encode(&self, format: ImageFormat) -> Result<Vec<u8>, Failure> {
        let mut bytes = Cursor::new(Vec::new());
        let wrong = |error| Failure::unsupported(format!("the picture can't be encoded: {error}"));
        self.image.write_to(&mut bytes, format).map_err(wrong)?;
        Ok(bytes.into_inner())
    }
}

/// Returns the format of pictures that a file name stands for.
pub(crate) fn format(path: &Path) -> Result<ImageFormat, Failure> {
    let found = ImageFormat::from_path(path).ok();
    found.filter(|format| matches!(format, ImageFormat::Png | ImageFormat::Jpeg)).ok_or_else(|| {
        Failure::usage("pictures are drawn as PNG or JPEG; name a file that ends in .png or .jpg").at(path.display())
    })
}

/// Returns black or white, whichever is easier to read on this colour.
fn contrast([red, green, blue]: Color) -> Color {
    let luminance = 0.299 * f32::from(red) + 0.587 * f32::from(green) + 0.114 * f32::from(blue);
    if luminance > 130.0 { BLACK } else { WHITE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(height: usize, width: usize) -> Canvas {
        Canvas::of(&Picture { height, width, values: vec![100.0f32; height * width * 3] })
    }

    fn changed(canvas: &Canvas) -> usize {
        canvas.image.pixels().filter(|pixel| pixel.0 != [100; 3]).count()
    }

    #[test]
    fn small_pictures_are_enlarged() {
        let picture = Picture { height: 10, width: 100, values: vec![7.0f32; 3000] };
        let canvas = Canvas::new(&picture);
        assert_eq!((canvas.height(), canvas.width()), (50, 500));
    }

    #[test]
    fn boxes_have_edges_and_no_inside() {
        let mut canvas = grey(20, 40);
        canvas.outline([0.25, 0.25, 0.75, 0.75], [255, 0, 0]);
        // 10 rows and 20 columns, two pixels thick.
        assert_eq!(changed(&canvas), 10 * 20 - 6 * 16);
        assert_eq!(canvas.image.get_pixel(10, 5).0, [255, 0, 0]);
    }

    #[test]
    fn nothing_is_drawn_beyond_the_picture() {
        let mut canvas = grey(20, 40);
        canvas.outline([-5.0, -5.0, 9.0, 9.0], WHITE);
        canvas.outline([f64::MIN, f64::MIN, f64::MAX, f64::MAX], WHITE);
        canvas.outline([0.9, 0.9, 0.1, 0.1], [100; 3]);
        canvas.point([7.0, -3.0], WHITE, false);
        canvas.line([-1e12, 0.5], [-1e12, 1e12], WHITE);
        assert_eq!(changed(&canvas), 0);
        canvas.tag([2.0, 2.0], "beyond", WHITE);
        canvas.panel(&vec![("line".to_owned(), Some(WHITE)); 90]);
        assert!(changed(&canvas) > 0);
    }

    #[test]
    fn colours_of_neighbours_differ() {
        let distance = |a: Color, b: Color| a.iter().zip(b).map(|(a, b)| a.abs_diff(b) as usize).sum::<usize>();
        assert!((0..100).all(|class| distance(color(class), color(class + 1)) > 60));
    }

    #[test]
    fn areas_are_mixed_with_the_picture() {
        let mut canvas = grey(4, 4);
        canvas.lay(|[y, _]| (y < 0.5).then_some(([200, 100, 0], 0.5)));
        assert_eq!((canvas.image.get_pixel(0, 0).0, canvas.image.get_pixel(0, 3).0), ([150, 100, 50], [100; 3]));
    }

    #[test]
    fn pictures_are_png_or_jpeg() {
        assert_eq!(format(Path::new("a.PNG")).unwrap(), ImageFormat::Png);
        assert_eq!(format(Path::new("a.jpeg")).unwrap(), ImageFormat::Jpeg);
        for name in ["a", "a.gif", ".png/a"] {
            assert!(format(Path::new(name)).unwrap_err().message.contains(".png or .jpg"), "{name}");
        }
        let png = grey(3, 2).encode(ImageFormat::Png).unwrap();
        assert_eq!(Picture::decode(&png).unwrap().width, 2);
    }
}
