//! Names of C++ in a line for a person: of a long one, template arguments and scopes become an ellipsis. JSON and `--verbose` have the whole names.

use std::borrow::Cow;

/// The longest name that stays whole, in characters.
const LONGEST: usize = 60;
const ELLIPSIS: &str = "...";

/// The line with each long name shortened.
pub fn short_names(line: &str) -> Cow<'_, str> {
    if line.len() <= LONGEST {
        return Cow::Borrowed(line);
    }
    let mut short = String::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(start) = line[at..].find(begins_a_name).map(|found| at + found) {
        let end = start + name_at(&line[start..]);
        let name = &line[start..end];
        if name.chars().count() > LONGEST && is_of_code(line, start, end) {
            short.push_str(&line[copied..start]);
            short.push_str(&shortened(name));
            copied = end;
        }
        at = end;
    }
    short.push_str(&line[copied..]);
    if copied == 0 {
        Cow::Borrowed(line)
    } else {
        Cow::Owned(short)
    }
}

fn begins_a_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

/// No part of a path, and no digest.
fn is_of_code(line: &str, start: usize, end: usize) -> bool {
    let name = &line[start..end];
    let is_of_a_path = |letter: Option<char>| letter.is_some_and(|letter| "/.-@".contains(letter));
    name.contains("::")
        || name.contains('<')
        || name.contains('_')
            && !is_of_a_path(line[..start].chars().next_back())
            && !is_of_a_path(
                line[end..].chars().next().filter(|_| line[end..].len() > 1 && !line[end..].starts_with(". ")),
            )
}

/// The length of the name at the beginning of this text, with its template arguments, and the functions that its scopes are.
fn name_at(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        at += rest.find(|letter| !begins_a_name(letter)).unwrap_or(rest.len());
        for (open, close) in [('<', '>'), ('(', ')')] {
            let Some(length) = text[at..].starts_with(open).then(|| enclosed(&text[at..], open, close)).flatten()
            else {
                continue;
            };
            let after =
                text[at + length..].strip_prefix(" const").map_or(at + length, |_| at + length + " const".len());
            // Arguments of a function are part of a name only where it is a scope.
            match open {
                '<' => at += length,
                _ if text[after..].starts_with("::") => at = after,
                _ => {}
            }
        }
        let Some(scope) = text[at..].strip_prefix("::") else { return at };
        let special = [('(', ')'), ('{', '}')].into_iter().find_map(|(open, close)| enclosed(scope, open, close));
        match special {
            Some(length) => at += "::".len() + length,
            None if scope.starts_with("operator()") => at += "::operator()".len(),
            None if scope.starts_with(begins_a_name) => at += "::".len(),
            None => return at,
        }
    }
}

/// The length of what is enclosed at the beginning of the text.
fn enclosed(text: &str, open: char, close: char) -> Option<usize> {
    if !text.starts_with(open) {
        return None;
    }
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        let is_arrow = letter == '>' && text[..at].ends_with('-');
        match letter {
            _ if letter == open => depth += 1,
            _ if letter == close && !is_arrow => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + letter.len_utf8());
        }
    }
    None
}

fn shortened(name: &str) -> String {
    let plain = without_arguments(name);
    if plain.chars().count() <= LONGEST {
        return plain;
    }
    let last = plain.rsplit_once("::").map_or(plain.as_str(), |(_, last)| last);
    let scoped = if last.len() < plain.len() { format!("{ELLIPSIS}::{last}") } else { plain };
    match scoped.char_indices().nth(LONGEST) {
        None => scoped,
        Some(_) => scoped.chars().take(LONGEST - ELLIPSIS.len()).collect::<String>() + ELLIPSIS,
    }
}

/// `a<...>::b<...>` of `a<1, 2>::b<c<int> >`.
fn without_arguments(name: &str) -> String {
    let mut plain = String::new();
    let mut at = 0;
    while let Some(letter) = name[at..].chars().next() {
        let is_anonymous = name[at..].starts_with("(anonymous namespace)");
        let length = match letter {
            '<' => enclosed(&name[at..], '<', '>'),
            '(' if !is_anonymous => enclosed(&name[at..], '(', ')').filter(|length| *length > "()".len()),
            _ => None,
        };
        match length {
            Some(length) => {
                let close = if letter == '<' { '>' } else { ')' };
                plain.extend([letter.to_string(), ELLIPSIS.to_owned(), close.to_string()]);
                at += length;
            }
            None => {
                plain.push(letter);
                at += letter.len_utf8();
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_loses_its_arguments_and_then_its_scopes() {
        let functor = "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >";
        let impls = "GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&, at::native::GeluType)";
        let lambda = "{lambda()#2}::operator()() const::{lambda(float, float)#1}";
        for (line, expect) in [
            (
                format!("the 1st launch of at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, (unsigned long)3> > on stream 1"),
                "the 1st launch of at::native::vectorized_elementwise_kernel<...> on stream 1".to_owned(),
            ),
            (
                format!("kernel at::native::(anonymous namespace)::multi_tensor_apply_kernel<{functor}>, and no more"),
                "kernel ...::multi_tensor_apply_kernel<...>, and no more".to_owned(),
            ),
            (
                format!("at::native::elementwise_kernel<4, at::native::{impls}::{lambda}>: it waits"),
                "at::native::elementwise_kernel<...>: it waits".to_owned(),
            ),
            (
                format!("in at::native::{impls}::{lambda} (libtorch.so) for ever"),
                "in ...::{lambda(...)#1} (libtorch.so) for ever".to_owned(),
            ),
            (
                "of triton_poi_fused__native_batch_norm_legit_functional_add_convolution_backward_12 since +1.0 s".to_owned(),
                "of triton_poi_fused__native_batch_norm_legit_functional_add_... since +1.0 s".to_owned(),
            ),
        ] {
            assert_eq!(short_names(&line), expect);
        }
    }

    #[test]
    fn a_short_name_and_a_path_stay_whole() {
        for line in [
            "at::native::reduce_kernel<512, 1> and k1 < k2 on stream 1, which waits for nothing else in the whole context",
            "details: lazyguard report /srv/a_folder_whose_name_is_longer_than_sixty_characters_and_has_lines_in_it/rank0-1",
            "container 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef is the host of the process",
            "an unfinished name::of<float, at::native::binary_internal::MulFunctor<float, float, float, float, float",
        ] {
            assert_eq!(short_names(line), line);
        }
    }
}
