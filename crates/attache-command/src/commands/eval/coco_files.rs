//! The files of the COCO challenge: annotations of pictures, and detections.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::coco::{FoundBox, TrueBox};
use crate::failure::Failure;
use crate::io::files;

/// A picture of the annotations.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Image {
    pub(crate) id: i64,
    #[serde(default)]
    pub(crate) file_name: String,
}

#[derive(Deserialize)]
struct Category {
    id: i64,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Annotation {
    /// Files that other programs make may lack it; the position counts then, from 1.
    id: Option<i64>,
    image_id: i64,
    category_id: i64,
    bbox: [f64; 4],
    /// Without it, the area of the box.
    area: Option<f64>,
    #[serde(default)]
    iscrowd: Crowd,
}

/// Whether a box stands for a crowd: COCO's number, or the truth value that other programs write.
#[derive(Deserialize)]
#[serde(untagged)]
enum Crowd {
    Number(i64),
    Truth(bool),
}

impl Default for Crowd {
    fn default() -> Self {
        Self::Truth(false)
    }
}

impl Crowd {
    fn is_true(&self) -> bool {
        match self {
            Self::Number(number) => *number != 0,
            Self::Truth(truth) => *truth,
        }
    }
}

#[derive(Deserialize)]
struct AnnotationFile {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

/// A row of a file of detections.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Row {
    pub(crate) image_id: i64,
    pub(crate) category_id: i64,
    pub(crate) bbox: [f64; 4],
    pub(crate) score: f64,
}

/// What is true of the pictures of a data set.
#[derive(Clone, Debug)]
pub(crate) struct Annotations {
    pub(crate) images: Vec<Image>,
    /// Names of categories by their numbers.
    pub(crate) categories: BTreeMap<i64, String>,
    pub(crate) boxes: Vec<TrueBox>,
    /// What is wrong with annotations that were left out.
    pub(crate) problems: Vec<String>,
}

impl Annotations {
    /// Reads a file of annotations.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let AnnotationFile { images, annotations, categories } = parse(path, "COCO's form of annotations")?;
        let categories: BTreeMap<i64, String> = categories.into_iter().map(|it| (it.id, it.name)).collect();
        if categories.is_empty() || images.is_empty() {
            let text = "it has no images or no categories; give the annotations of a data set in COCO's form";
            return Err(Failure::usage(text).at(path.display()));
        }
        let mut all = Self { images, categories, boxes: Vec::new(), problems: Vec::new() };
        let known: BTreeSet<i64> = all.image_numbers();
        for (index, one) in annotations.into_iter().enumerate() {
            let id = one.id.unwrap_or(index as i64 + 1);
            let at = format!("{}, annotation {id}", path.display());
            if !all.categories.contains_key(&one.category_id) {
                all.problems
                    .push(format!("{at}: category {} is out of range: the file has none such", one.category_id));
            } else if !known.contains(&one.image_id) {
                all.problems.push(format!("{at}: there is no image {}", one.image_id));
            } else if one.bbox.iter().any(|edge| !edge.is_finite()) {
                all.problems.push(format!("{at}: its box is not finite"));
            } else {
                let area = one.area.unwrap_or(one.bbox[2] * one.bbox[3]);
                let (image, category, edges) = (one.image_id, one.category_id, one.bbox);
                all.boxes.push(TrueBox { id, image, category, edges, area, is_crowd: one.iscrowd.is_true() });
            }
        }
        Ok(all)
    }

    /// Returns the numbers of all images.
    pub(crate) fn image_numbers(&self) -> BTreeSet<i64> {
        self.images.iter().map(|image| image.id).collect()
    }

    /// Returns the number of the category with this name.
    pub(crate) fn category_named(&self, name: &str) -> Option<i64> {
        self.categories.iter().find(|(_, own)| *own == name).map(|(number, _)| *number)
    }
}

/// Reads a file of detections. Those of images that are not annotated are left out; returns what is wrong with them.
pub(crate) fn read_detections(path: &Path, truth: &Annotations) -> Result<(Vec<FoundBox>, Vec<String>), Failure> {
    let rows: Vec<Row> = parse(path, "COCO's form of detections")?;
    let known = truth.image_numbers();
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (index, Row { image_id, category_id, bbox, score }) in rows.into_iter().enumerate() {
        if !known.contains(&image_id) {
            problems.push(format!("{}, detection {index}: there is no image {image_id}", path.display()));
        } else if !truth.categories.contains_key(&category_id) {
            let text = format!("category {category_id} is out of range: the annotations have none such");
            problems.push(format!("{}, detection {index}: {text}", path.display()));
        } else {
            found.push(FoundBox { image: image_id, category: category_id, edges: bbox, score });
        }
    }
    Ok((found, problems))
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Path, form: &str) -> Result<T, Failure> {
    let text = files::read_text(path)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("it has not {form}: {error}")).at(path.display()))
}
