//! Tests which files of a profile's folder are parts, and what each part adds.

use super::*;

fn part(image: &[u8], kernel: &str) -> Profile {
    let mut profile = Profile::default();
    profile.loaded(ImageId::of(image), LoadOptions::default(), 1, 100);
    profile.used(ImageId::of(image), kernel);
    profile
}

#[test]
fn parts_are_known_by_their_names_and_those_being_written_are_none() {
    for name in ["node7-4242-17.profile", "merged-1-2.profile", "a.new.profile"] {
        assert!(is_part(name), "{name}");
    }
    for name in ["", "images", "notes.txt", "node7.profile.new", ".4242.profile", ".profile", ".4242.new"] {
        assert!(!is_part(name), "{name}");
    }
}

#[test]
fn a_part_adds_what_it_holds_to_what_is_known() {
    let [one, two] = [part(b"one", "k"), part(b"two", "k2")];
    let mut known = one.clone();
    assert_eq!(known.take_part(Ok(two.text().into_bytes())).ok(), Some(true));
    let mut both = one;
    both.merge(&two);
    assert_eq!(known, both);
}

#[test]
fn a_part_that_is_gone_is_no_error_and_one_that_cannot_be_read_is() {
    let before = part(b"one", "k");
    let mut known = before.clone();
    assert_eq!(known.take_part(Err(io::ErrorKind::NotFound.into())).ok(), Some(false));
    let denied = known.take_part(Err(io::ErrorKind::PermissionDenied.into()));
    assert_eq!(denied.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    let mut cut_off = part(b"two", "k2").text();
    cut_off.pop();
    let damaged = known.take_part(Ok(cut_off.into_bytes()));
    assert_eq!(damaged.unwrap_err().to_string(), Damage::CutOff.to_string());
    assert_eq!(known, before, "nothing is taken from any of them");
}

#[test]
fn a_kernel_of_any_name_is_read_as_it_was_written() {
    for name in ["", "\r", "\0", "\n\t", "a\\b'c\"d", "\\r", "\u{7f}\u{202e}", "größe"] {
        let written = part(b"one", name);
        assert_eq!(Profile::parse(written.text().as_bytes()), Ok(written), "{name:?}");
    }
}

#[test]
fn each_damage_is_said_in_words_of_its_own() {
    let said = |bytes: &[u8]| Profile::parse(bytes).unwrap_err().to_string();
    assert!(said(b"\x7fELF").contains("first line is not \"lazyguard profile 3\""));
    assert!(said(b"lazyguard profile 3\n").contains("cut off"));
    assert!(said(Profile::part_of("nonsense\n").as_bytes()).contains("line 2 "));
}

#[test]
fn the_limits_are_those_that_the_documentation_names() {
    let page = include_str!("../../../docs/CONFIGURATION.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let [image, images, library, libraries] =
        [MOST_IMAGE_BYTES, MOST_BYTES, MOST_LIBRARY_BYTES, MOST_BYTES_OF_LIBRARIES].map(|bytes| bytes >> 20);
    for limits in [
        format!("Images of up to {image} MiB each are kept, and {images} MiB of them in all"),
        format!("none of more than {library} MiB is loaded, and {libraries} MiB in all"),
    ] {
        assert!(page.contains(&limits), "{limits}");
    }
}

#[test]
fn a_part_that_would_be_too_large_leaves_out_what_was_used_longest_ago() {
    let mut profile = Profile::default();
    for day in [30, 10, 20] {
        let place = Place { object: format!("lib{day}.so"), offset: 0, image: ImageId::of(b"") };
        profile.library_loaded(&place, day);
        profile.loaded(ImageId::of(&[day as u8]), LoadOptions::default(), 1, day);
        profile.sees(ImageId::of(&[day as u8]), false, day);
    }
    let whole = profile.text();
    assert_eq!(profile.text_within(whole.len()), whole);
    let days_within = |bytes: usize| {
        let text = profile.text_within(bytes);
        let left = Profile::parse(text.as_bytes()).unwrap();
        assert!(text.len() <= bytes || left == Profile::default(), "{bytes}: {text}");
        let days = left.libraries.values().map(|library| library.day);
        assert_eq!([left.images.len(), left.seen.len()], [left.libraries.len(); 2], "all of a day");
        days.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(days_within(whole.len() - 1), [20, 30]);
    assert_eq!(days_within(whole.len() / 2), [30]);
    assert!(days_within(0).is_empty());
}

#[test]
fn of_one_day_half_of_each_kind_is_left_out() {
    let mut profile = Profile::default();
    for n in 0..100_u8 {
        let place = Place { object: "lib.so".into(), offset: n.into(), image: ImageId::of(b"") };
        profile.library_loaded(&place, 1);
        profile.loaded(ImageId::of(&[n]), LoadOptions::default(), 1, 1);
        profile.sees(ImageId::of(&[n]), false, 1);
    }
    let half = Profile::parse(profile.text_within(profile.text().len() - 1).as_bytes()).unwrap();
    assert_eq!((half.images.len(), half.libraries.len(), half.seen.len()), (50, 50, 50));
}

#[test]
fn a_day_that_is_to_come_is_today() {
    let mut profile = Profile::default();
    for (offset, day) in [(0, 50), (24, 200)] {
        profile.library_loaded(&Place { object: String::new(), offset, image: ImageId::of(b"") }, day);
        profile.loaded(ImageId::of(&[day as u8]), LoadOptions::default(), 1, day);
        profile.sees(ImageId::of(&[day as u8]), false, day);
    }
    profile.ends_on(100);
    assert_eq!(profile.libraries.values().map(|library| library.day).collect::<Vec<_>>(), [50, 100]);
    let mut days: Vec<_> = profile.seen.values().map(|seen| seen.day).collect();
    days.sort_unstable();
    assert_eq!(days, [50, 100]);
    let mut days: Vec<_> = profile.images.values().map(|image| image.day).collect();
    days.sort_unstable();
    assert_eq!(days, [50, 100]);
}
