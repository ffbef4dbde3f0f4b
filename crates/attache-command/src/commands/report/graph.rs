//! Draws the placement of a model as a graph: one box an operator, in rows in the order of execution, coloured by where
//! it runs.

use std::cmp::Reverse;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::chart::{CPU, FOLDED, FONT, GPU, MUTED, titled};
use super::data::{Place, Placed};

/// Size of a box, in pixels.
const BOX: (i32, i32) = (236, 22);
/// Distance of boxes from each other, in pixels.
const GAP: (i32, i32) = (22, 12);
/// Most boxes of a row; further ones go to the next.
const MOST_COLUMNS: usize = 6;
/// Operators beyond this number are not drawn: the picture would be of no use.
pub(super) const MOST: usize = 400;
/// Most characters of a name in its box.
const MOST_NAME: usize = 22;

/// An operator of the picture: its index in the file, and the places in the picture of those whose outputs it reads.
#[derive(Clone, Debug)]
pub(super) struct Drawn<'a> {
    index: usize,
    placed: &'a Placed,
    reads: Vec<usize>,
}

/// Returns the operators that are worth drawing, and the number of the others: those that were computed in advance from
/// weights alone.
pub(super) fn drawn(placed: &[Placed]) -> (Vec<Drawn<'_>>, usize) {
    let mut drawn: Vec<Drawn<'_>> = Vec::new();
    let mut places: Vec<Option<usize>> = Vec::with_capacity(placed.len());
    for (index, placed) in placed.iter().enumerate() {
        let reads: Vec<usize> = placed.reads.iter().filter_map(|read| *places.get(*read)?).collect();
        let is_constant = placed.is_constant || (!placed.reads.is_empty() && reads.is_empty());
        if placed.place == Place::Folded && is_constant {
            places.push(None);
            continue;
        }
        places.push(Some(drawn.len()));
        drawn.push(Drawn { index, placed, reads });
    }
    let others = placed.len() - drawn.len();
    (drawn, others)
}

/// Returns the picture of a placement of at most [`MOST`] operators.
pub(super) fn graph(placed: &[Drawn<'_>], title: &str) -> String {
    let placed = &placed[..placed.len().min(MOST)];
    let places = arrange(placed);
    let columns = places.iter().map(|place| place.1 + 1).max().unwrap_or(1);
    let rows = places.iter().map(|place| place.0 + 1).max().unwrap_or(1);
    let width = columns as i32 * (BOX.0 + GAP.0) + GAP.0;
    let height = rows as i32 * (BOX.1 + GAP.1) + GAP.1;
    let mut text = String::new();
    // Drawing into a text cannot fail.
    let area = SVGBackend::with_string(&mut text, (width as u32, height as u32)).into_drawing_area();
    let _ = draw(&area, placed, &places);
    drop(area);
    titled(&text, title)
}

/// Returns row and column of each operator: below all those whose outputs it reads, in the leftmost column that no edge
/// crosses.
fn arrange(placed: &[Drawn<'_>]) -> Vec<(usize, usize)> {
    let mut places: Vec<(usize, usize)> = Vec::with_capacity(placed.len());
    let mut used: Vec<Vec<usize>> = Vec::new();
    for (index, operator) in placed.iter().enumerate() {
        let above = operator.reads.iter().filter(|read| **read < index).map(|read| places[*read]);
        let mut row = above.clone().map(|place| place.0 + 1).max().unwrap_or(0);
        let wanted = above.min_by_key(|place| Reverse(place.0)).map_or(0, |place| place.1);
        let column = loop {
            if used.len() <= row {
                used.resize(row + 1, Vec::new());
            }
            let is_free = |column: &usize| !used[row].contains(column);
            match std::iter::once(wanted).chain(0..MOST_COLUMNS).find(is_free) {
                Some(column) => break column,
                None => row += 1,
            }
        };
        used[row].push(column);
        places.push((row, column));
    }
    places
}

fn corner((row, column): (usize, usize)) -> (i32, i32) {
    (GAP.0 + column as i32 * (BOX.0 + GAP.0), GAP.1 + row as i32 * (BOX.1 + GAP.1))
}

fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    placed: &[Drawn<'_>],
    places: &[(usize, usize)],
) -> Result<(), Box<dyn std::error::Error>> {
    for (index, operator) in placed.iter().enumerate() {
        for read in operator.reads.iter().filter(|read| **read < index) {
            area.draw(&PathElement::new(edge(corner(places[*read]), corner(places[index])), MUTED.stroke_width(1)))?;
        }
    }
    for (index, operator) in placed.iter().enumerate() {
        let (x, y) = corner(places[index]);
        let color = match operator.placed.place {
            Place::Cpu => CPU,
            Place::Gpu => GPU,
            Place::Folded => FOLDED,
        };
        area.draw(&Rectangle::new([(x, y), (x + BOX.0, y + BOX.1)], color.filled()))?;
        let style = ("sans-serif", FONT).into_font().color(&WHITE).pos(Pos::new(HPos::Center, VPos::Center));
        let mut name: String = operator.placed.operator.chars().take(MOST_NAME).collect();
        if operator.placed.operator.chars().count() > MOST_NAME {
            name.pop();
            name.push('…');
        }
        let text = format!("{} {name} · {}", operator.index, operator.placed.place.word());
        area.draw_text(&text, &style.into_text_style(area), (x + BOX.0 / 2, y + BOX.1 / 2))?;
    }
    area.present()?;
    Ok(())
}

/// Returns the points of a line from below one box to above another. A line past other boxes runs beside them.
fn edge(from: (i32, i32), to: (i32, i32)) -> Vec<(i32, i32)> {
    let start = (from.0 + BOX.0 / 2, from.1 + BOX.1);
    let end = (to.0 + BOX.0 / 2, to.1);
    if end.1 - start.1 <= GAP.1 {
        return vec![start, end];
    }
    let side = from.0.max(to.0) + BOX.0 + GAP.0 / 2;
    vec![
        start,
        (start.0, start.1 + GAP.1 / 3),
        (side, start.1 + GAP.1 / 2),
        (side, end.1 - GAP.1 / 2),
        (end.0, end.1 - GAP.1 / 3),
        end,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(reads: &[&[usize]]) -> Vec<Placed> {
        let one = |reads: &&[usize]| Placed {
            operator: "<ADD>".to_owned(),
            place: Place::Gpu,
            note: String::new(),
            is_constant: false,
            reads: reads.to_vec(),
        };
        reads.iter().map(one).collect()
    }

    #[test]
    fn operators_stand_below_what_they_read() {
        let placed = placed(&[&[], &[0], &[0], &[1, 2], &[3]]);
        let (drawn, others) = drawn(&placed);
        let places = arrange(&drawn);
        assert_eq!((places, others), (vec![(0, 0), (1, 0), (1, 1), (2, 0), (3, 0)], 0));
        let text = graph(&drawn, "title");
        assert!(text.contains("3 &lt;ADD&gt; · GPU") && !text.contains("<ADD>"), "{text}");
        assert_eq!(text.matches("<rect").count(), 5, "{text}");
        assert_eq!(text.matches("<polyline").count(), 5, "{text}");
    }

    #[test]
    fn what_only_prepares_weights_is_not_drawn() {
        let mut placed = placed(&[&[], &[0], &[], &[1, 2]]);
        for index in [0, 1] {
            placed[index].place = Place::Folded;
        }
        placed[0].is_constant = true;
        let (drawn, others) = drawn(&placed);
        let found: Vec<(usize, &[usize])> = drawn.iter().map(|one| (one.index, one.reads.as_slice())).collect();
        assert_eq!((found, others), (vec![(2, &[][..]), (3, &[0])], 2));
    }

    #[test]
    fn wide_and_empty_models_are_drawn() {
        let many = placed(&vec![&[][..]; 500]);
        let (drawn, _) = drawn(&many);
        assert_eq!(graph(&drawn, "title").matches("<rect").count(), MOST);
        assert!(arrange(&drawn).iter().all(|place| place.1 < MOST_COLUMNS));
        assert!(graph(&[], "title").contains("<svg"));
    }
}
