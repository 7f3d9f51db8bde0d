//! Baselines: the keys of known hazards, sorted, one a line.

use crate::machine::files;
use crate::words::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

const SCHEMA: u32 = 1;

#[derive(Deserialize, Serialize)]
struct File {
    schema: u32,
    keys: BTreeSet<String>,
}

/// The keys of a baseline; `None` where there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<BTreeSet<String>>, Failure> {
    let failure = |why: &dyn std::fmt::Display| Failure::Input(format!("baseline {}: {why}", path.display()));
    let text = match files::read_input(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failure(&error)),
    };
    let file: File = serde_json::from_str(&text).map_err(|error| failure(&format!("it is none: {error}")))?;
    match file.schema {
        SCHEMA => Ok(Some(file.keys)),
        other => Err(failure(&format!("it is of version {other}, and this build knows version {SCHEMA}"))),
    }
}

pub(crate) fn text(keys: BTreeSet<String>) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(&File { schema: SCHEMA, keys });
    text.map(|text| text + "\n").map_err(|error| Failure::Input(format!("the baseline cannot be written: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::test_samples::Scratch;

    #[test]
    fn what_is_written_is_read_again_and_has_a_key_a_line_in_order() {
        let scratch = Scratch::new("baseline");
        let keys: BTreeSet<_> = ["LG104|-|cuMemFree|none", "LG101|k|cuLaunchKernel|legacy"].map(str::to_owned).into();
        let written = text(keys.clone()).unwrap();
        assert_eq!(
            written,
            "{\n  \"schema\": 1,\n  \"keys\": [\n    \"LG101|k|cuLaunchKernel|legacy\",\n    \"LG104|-|cuMemFree|none\"\n  ]\n}\n"
        );
        assert_eq!(read(&scratch.file("a.json", &written)).unwrap(), Some(keys));
        assert_eq!(read(&scratch.path("none.json")).unwrap(), None);
    }

    #[test]
    fn what_is_no_baseline_is_said() {
        let scratch = Scratch::new("no-baseline");
        for (content, why) in [
            ("", "EOF"),
            ("[]", "invalid"),
            ("{\"schema\": 1}", "missing field `keys`"),
            ("{\"schema\": 1, \"keys\": [1]}", "invalid type"),
            ("{\"schema\": 2, \"keys\": []}", "it is of version 2, and this build knows version 1"),
        ] {
            let path = scratch.file("b.json", content);
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("baseline {}: ", path.display())), "{error}");
            assert!(error.contains(why), "{content}: {error}");
        }
        let folder = read(scratch.folder()).unwrap_err().to_string();
        assert!(folder.contains("directory"), "{folder}");
    }
}
