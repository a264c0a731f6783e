//! Puts mutants behind switches. Marks around each one name it, so that an error of the compiler
//! can be matched to its mutant.

use std::collections::BTreeMap;

use crate::listed::Mutant;
use crate::places::{ByteRange, MutationPlace, MutationPlaces};

/// The reason why no switch can be put at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Impossible {
    /// It is computed at compile time.
    Constant,
    /// It binds names: cargo-mutants calls it unviable as well.
    Binds,
    /// The place was not found.
    NotFound,
}

#[derive(Debug, Clone)]
enum SourcePiece {
    Text(String),
    Source(ByteRange),
}

/// A part of the source and its replacement.
#[derive(Debug)]
struct Edit {
    at: ByteRange,
    becomes: Vec<SourcePiece>,
}

impl Edit {
    /// Returns true if the original text of the place stays whole, whatever else is put there.
    fn keeps_whole(&self) -> bool {
        self.becomes.iter().any(|piece: &SourcePiece| matches!(piece, SourcePiece::Source(source) if *source == self.at))
    }
}

/// The edits of a file, outer ones first.
#[derive(Debug, Default)]
pub(crate) struct Rewriting {
    edits: Vec<Edit>,
}

/// The mutants at one place.
type Here<'a> = Vec<(u32, &'a Mutant)>;

fn switch(number: u32) -> String {
    format!("::cospan_domain::mutant_switch::on({number})")
}

fn mark_mutant(number: u32, inner: Vec<SourcePiece>) -> Vec<SourcePiece> {
    let mut pieces = vec![SourcePiece::Text(format!("/*<{number}*/"))];
    pieces.extend(inner);
    pieces.push(SourcePiece::Text(format!("/*{number}>*/")));
    pieces
}

/// Chooses one of several expressions at run time.
fn choose_expression(
    alternatives: Vec<(u32, Vec<SourcePiece>)>,
    original: Vec<SourcePiece>,
) -> Vec<SourcePiece> {
    let mut pieces = vec![SourcePiece::Text("(".to_owned())];
    for (number, alternative) in alternatives {
        pieces.push(SourcePiece::Text(format!("if {} {{(", switch(number))));
        pieces.extend(mark_mutant(number, alternative));
        pieces.push(SourcePiece::Text(")} else ".to_owned()));
    }
    pieces.push(SourcePiece::Text("{(".to_owned()));
    pieces.extend(original);
    pieces.push(SourcePiece::Text(")})".to_owned()));
    pieces
}

/// Checks that a switch can be put at the place of a mutant.
///
/// # Errors
/// The reason why no switch is possible there.
pub(crate) fn check_switchable(places: &MutationPlaces, mutant: &Mutant) -> Result<(), Impossible> {
    let Some(place) = places.by_start.get(&(mutant.genre, mutant.span.start)) else {
        return Err(Impossible::NotFound);
    };
    let at = match place {
        MutationPlace::Body { all, .. }
        | MutationPlace::Unary { all, .. }
        | MutationPlace::Field { all, .. } => all,
        MutationPlace::Binary { binds: true, .. } => return Err(Impossible::Binds),
        MutationPlace::Binary { operator: at, .. }
        | MutationPlace::Arm(at)
        | MutationPlace::Guard(at) => at,
    };
    let mut constants = places.constants.iter().chain(&places.const_functions);
    if constants.any(|outer| outer.start <= at.start && at.end <= outer.end) {
        Err(Impossible::Constant)
    } else {
        Ok(())
    }
}

impl Rewriting {
    /// Plans the edits for the numbered mutants of a file.
    pub(crate) fn new<'a>(
        places: &MutationPlaces,
        mutants: impl Iterator<Item = (u32, &'a Mutant)>,
    ) -> Self {
        let mut here: BTreeMap<_, Here<'a>> = BTreeMap::new();
        for (number, mutant) in
            mutants.filter(|(_, mutant)| check_switchable(places, mutant).is_ok())
        {
            here.entry((mutant.genre, mutant.span.start))
                .or_default()
                .push((number, mutant));
        }
        let mut rewriting = Self::default();
        for ((genre, start), mutants) in &here {
            if let Some(place) = places.by_start.get(&(*genre, *start)) {
                rewriting.edits.push(edit(place, mutants));
            }
        }
        // An insertion comes before whatever begins at the same place, and an outer part before an
        // inner one. Of two edits of the same place, the one that keeps it whole comes first.
        rewriting.edits.sort_by_key(|edit| {
            let at = &edit.at;
            (
                at.start,
                !at.is_empty(),
                std::cmp::Reverse(at.end),
                !edit.keeps_whole(),
            )
        });
        rewriting
    }

    /// Returns the source with all switches.
    pub(crate) fn apply(&self, source: &str) -> String {
        self.render(source, 0..source.len(), 0)
    }

    fn render(&self, source: &str, part: ByteRange, first: usize) -> String {
        let mut text = String::new();
        let mut at = part.start;
        for (index, edit) in self.edits.iter().enumerate().skip(first) {
            if edit.at.start < at || edit.at.end > part.end {
                continue;
            }
            text.push_str(&source[at..edit.at.start]);
            for piece in &edit.becomes {
                match piece {
                    SourcePiece::Text(written) => text.push_str(written),
                    SourcePiece::Source(inner) => {
                        text.push_str(&self.render(source, inner.clone(), index + 1));
                    }
                }
            }
            at = edit.at.end;
        }
        text.push_str(&source[at..part.end]);
        text
    }
}

fn edit(place: &MutationPlace, mutants: &Here<'_>) -> Edit {
    match place {
        MutationPlace::Body {
            all,
            iterator: true,
        } => iterator_body(all, mutants),
        MutationPlace::Body {
            all,
            iterator: false,
        } => Edit {
            at: all.start..all.start,
            becomes: mutants
                .iter()
                .flat_map(|(number, mutant): &(u32, &Mutant)| {
                    let text = format!("return {};", mutant.replacement);
                    let mut pieces = vec![SourcePiece::Text(format!("if {} {{", switch(*number)))];
                    pieces.extend(mark_mutant(*number, vec![SourcePiece::Text(text)]));
                    pieces.push(SourcePiece::Text("}\n".to_owned()));
                    pieces
                })
                .collect(),
        },
        MutationPlace::Binary {
            left,
            operator,
            right,
            ..
        } => {
            let alternatives = mutants
                .iter()
                .map(|(number, mutant): &(u32, &Mutant)| {
                    let operator = SourcePiece::Text(format!(" {} ", mutant.replacement));
                    (*number, operation(left, operator, right))
                })
                .collect();
            let original = operation(left, SourcePiece::Source(operator.clone()), right);
            Edit {
                at: left.start..right.end,
                becomes: choose_expression(alternatives, original),
            }
        }
        MutationPlace::Unary { all, operand } => {
            let alternatives = mutants
                .iter()
                .map(|(number, _)| (*number, vec![SourcePiece::Source(operand.clone())]))
                .collect();
            Edit {
                at: all.clone(),
                becomes: choose_expression(alternatives, vec![SourcePiece::Source(all.clone())]),
            }
        }
        MutationPlace::Arm(pattern) => Edit {
            at: pattern.end..pattern.end,
            becomes: mutants
                .iter()
                .flat_map(|(number, _): &(u32, &Mutant)| {
                    mark_mutant(
                        *number,
                        vec![SourcePiece::Text(format!(" if !{}", switch(*number)))],
                    )
                })
                .collect(),
        },
        MutationPlace::Guard(guard) => {
            let alternatives = mutants
                .iter()
                .map(|(number, mutant): &(u32, &Mutant)| {
                    (*number, vec![SourcePiece::Text(mutant.replacement.clone())])
                })
                .collect();
            let original = vec![SourcePiece::Source(guard.clone())];
            Edit {
                at: guard.clone(),
                becomes: choose_expression(alternatives, original),
            }
        }
        MutationPlace::Field { all, field } => {
            let alternatives = mutants
                .iter()
                .map(|(number, _)| {
                    let before = SourcePiece::Source(all.start..field.start);
                    let after = SourcePiece::Source(field.end..all.end);
                    (*number, vec![before, after])
                })
                .collect();
            Edit {
                at: all.clone(),
                becomes: choose_expression(alternatives, vec![SourcePiece::Source(all.clone())]),
            }
        }
    }
}

fn operation(left: &ByteRange, operator: SourcePiece, right: &ByteRange) -> Vec<SourcePiece> {
    vec![
        SourcePiece::Source(left.clone()),
        operator,
        SourcePiece::Source(right.clone()),
    ]
}

/// A function whose return type has no name must always return one and the same type.
fn iterator_body(all: &ByteRange, mutants: &Here<'_>) -> Edit {
    let mut pieces = vec![
        SourcePiece::Text("let original = {".to_owned()),
        SourcePiece::Source(all.clone()),
    ];
    pieces.push(SourcePiece::Text("};\n".to_owned()));
    for (number, mutant) in mutants {
        let text = format!(
            "let original = ::cospan_domain::mutant_switch::either({}, {}, original);\n",
            switch(*number),
            mutant.replacement
        );
        pieces.extend(mark_mutant(*number, vec![SourcePiece::Text(text)]));
    }
    pieces.push(SourcePiece::Text("original".to_owned()));
    Edit {
        at: all.clone(),
        becomes: pieces,
    }
}
