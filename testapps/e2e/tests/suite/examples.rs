//! The commands of `docs/EXAMPLES.md` do what stands below them.

use lazyguard_e2e::{root, Run, Work};
use std::fs;

/// The part between two marks, and what follows.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<(&'a str, &'a str)> {
    text.split_once(start)?.1.split_once(end)
}

fn code_of(text: &str) -> &str {
    let line = text.lines().find(|line| line.starts_with("LG")).unwrap_or_else(|| panic!("no code in {text}"));
    line.split(':').next().unwrap_or(line)
}

#[test]
fn each_command_gives_the_code_of_its_example() {
    let work = Work::new(lazyguard_e2e::this_test!());
    let page = fs::read_to_string(root().join("docs/EXAMPLES.md")).unwrap();
    let (mut rest, mut examples) = (page.as_str(), 0);
    while let Some((commands, behind)) = between(rest, "```sh\n", "```\n") {
        let (said, behind) =
            between(behind, "```text\n", "```\n").unwrap_or_else(|| panic!("nothing is said of {commands}"));
        let folder = between(commands, "LAZYGUARD_OUT=", " ").map(|(folder, _)| folder).unwrap_or_default();
        let own = work.path().join(folder);
        // The same, sooner: three times the threshold have to go by, and what the driver is asked.
        let commands = commands
            .replace(folder, &own.display().to_string())
            .replace("LAZYGUARD_HANG_AFTER=1s", "LAZYGUARD_HANG_AFTER=300ms")
            .replace("timeout -s KILL 6 ", "timeout -s KILL 3 ");
        let outcome = Run::new(&work, "bash").args(["-c", &commands]).finish();
        assert_eq!(outcome.code, Some(0), "{commands}{outcome}");
        // The program may have printed something before.
        let report = outcome.stdout.split_once("HANG: ").unwrap_or_else(|| panic!("no hang: {commands}{outcome}")).1;
        assert_eq!(code_of(report), code_of(said), "{commands}{outcome}");
        (rest, examples) = (behind, examples + 1);
    }
    assert_eq!(examples, page.matches("\n## ").count(), "examples without a command");
}
