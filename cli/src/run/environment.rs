//! The environment of the program, and the folder of the run: what this command finds in its own environment, and what the options make of it.

use super::other_users::OtherUsers;
use super::program;
use super::retry::PROFILE_OF_RUN;
use super::root::{self, Given, Root};
use super::Options;
use crate::folder::ends;
use crate::folder::profile_cache::{self, Own};
use crate::inspect::doctor;
use crate::inspect::doctor::sanitizer;
use crate::machine::{host_name, unix_now};
use crate::words::on_hang::{FAIL, KILL, REVOKE};
use crate::words::{exit_code, output, Failure};
use lazyguard_core::settings::{
    self, FolderFacts, Settings, PROFILE, RUN_KILLS, RUN_OTHER_USERS, RUN_PROFILE, RUN_ROOT, SETTINGS,
};
use std::ffi::OsString;
use std::path::Path;

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(super) fn host() -> String {
    host_name().map_or_else(|| "host".to_owned(), |host| host.replace('/', "_"))
}

pub(super) fn settings_of(options: &Options) -> Settings {
    let value = |name: &'static str| options.setting(name).map(str::to_owned).or_else(|| variable(name));
    let given: Vec<_> = SETTINGS.iter().filter_map(|row| Some((row.name, value(row.name)?))).collect();
    Settings::read(given.iter().map(|(name, value)| (*name, value.as_str()))).0
}

/// The action at a hang that this command takes part in.
pub(super) fn action_on_hang(options: &Options) -> Option<&'static str> {
    let of_variable = || variable(settings::ON_HANG).map(|value| value.trim().to_owned());
    let asked = options.setting(settings::ON_HANG).map(str::to_owned).or_else(of_variable)?;
    [KILL, FAIL, REVOKE].into_iter().find(|action| *action == asked)
}

/// Whether this command ends the program once it has stalled.
pub(super) fn kills_on_stall(options: &Options) -> bool {
    let of_variable = || variable(settings::ON_STALL).map(|value| value.trim().to_owned());
    options.setting(settings::ON_STALL).map(str::to_owned).or_else(of_variable).is_some_and(|asked| asked == KILL)
}

fn kills_on_hang(options: &Options) -> bool {
    action_on_hang(options) == Some(KILL)
}

fn names_profile(options: &Options) -> bool {
    let given = || variable(PROFILE).is_some_and(|value| !value.trim().is_empty());
    options.setting(PROFILE).is_some() || given()
}

/// The program's own profile, where the user has asked for it, or has named neither another one nor a schedule. That of several attempts is in the folder
/// of the first of them, if it can or may be in no other.
pub(super) fn own_profile(options: &mut Options, root: &Root) -> Option<Own> {
    let retries = options.retry > 0;
    let is_for_all = || !names_profile(options) && (retries || settings_of(options).schedule.is_none());
    let is_own = options.own_profile || is_for_all();
    let own = || profile_cache::folder().zip(profile_cache::name_of(&options.program, program::resolve));
    let own = is_own.then(own).flatten().map(|(folder, name)| Own::used(folder.join(name)));
    let own = own.filter(|own| !retries || own.is_made());
    let is_off = !is_own && settings_of(options).profile.is_none();
    if retries && own.is_none() && (is_own || is_off) {
        let first = options.wanted.earlier.first().map_or(root.path(), |hung| &hung.folder);
        let folder = first.join(PROFILE_OF_RUN);
        let why = if is_off { "--profile is off" } else { "this user's cache cannot be used" };
        options.profile_of_run =
            Some(format!("{why}: the profile is in the folder of the first attempt, and goes with the last"));
        options.settings.retain(|(name, _)| *name != PROFILE);
        options.settings.push((PROFILE, folder.display().to_string()));
        return None;
    }
    if !is_own {
        return None;
    }
    let path = own.as_ref().map(|own| own.folder.display().to_string());
    if !options.own_profile {
        options.settings.extend(path.iter().flat_map(|path| [(PROFILE, path.clone()), (RUN_PROFILE, path.clone())]));
        return own;
    }
    if own.is_none() {
        let why = profile_cache::NONE;
        output::say(format!("--profile: {why}; the program runs without a profile (--profile=FOLDER names one)"));
    }
    options.settings.push((PROFILE, path.unwrap_or_else(|| "off".to_owned())));
    own
}

pub(super) fn variables_of(
    options: &Options,
    root: &Root,
    others: Option<&OtherUsers>,
    library: Option<&Path>,
) -> Vec<program::Variable> {
    let name = &options.program[0];
    let loaded = library.and_then(|_| doctor::program::loaded(name));
    let cannot_load = loaded.as_ref().and_then(|(path, program)| program::cannot_load(path, program));
    cannot_load.iter().for_each(output::say);
    let preloaded = library.filter(|_| cannot_load.is_none());
    let preload = preloaded.map(|library| program::preload(library, std::env::var_os("LD_PRELOAD")));
    let asan = loaded.and_then(|(_, program)| sanitizer::options_for(&program.ok()?));
    program::goes_unguarded(name).iter().for_each(output::say);
    variables(options, root, others, preload.map(|preload| (preload, asan)))
}

fn variables(
    options: &Options,
    root: &Root,
    others: Option<&OtherUsers>,
    preload: Option<(OsString, Option<OsString>)>,
) -> Vec<program::Variable> {
    let mut variables: Vec<_> = options.settings.iter().map(|(name, value)| (*name, OsString::from(value))).collect();
    if kills_on_hang(options) && root.is_there() {
        // This command kills; the guard only reports, and asks the driver for a GPU core dump before.
        variables.extend([(settings::ON_HANG, "report".into()), (RUN_KILLS, "1".into())]);
    } else if kills_on_hang(options) {
        variables.push((settings::ON_HANG, format!("exit:{}", exit_code::HANG).into()));
    }
    if kills_on_stall(options) {
        let by_the_guard = format!("exit:{}", exit_code::HANG);
        variables.push((settings::ON_STALL, if root.is_there() { "report".into() } else { by_the_guard.into() }));
    }
    match root.is_there() {
        true => variables.extend([("LAZYGUARD_OUT", root.template().into()), (RUN_ROOT, root.text().into())]),
        // The command could make no folder: a process need not try, and complain again.
        false => variables.push(("LAZYGUARD_OUT", "".into())),
    }
    variables.extend(others.map(|others| (RUN_OTHER_USERS, others.path().into())));
    let Some((preload, asan)) = preload else { return variables };
    variables.push(("LD_PRELOAD", preload));
    variables.extend(asan.map(|options| (sanitizer::VARIABLE, options)));
    variables
}

pub(super) fn make_root(options: &Options, facts: &FolderFacts<'_>, command: &[String]) -> Result<Root, Failure> {
    let (variable, around) = (variable("LAZYGUARD_OUT"), variable(RUN_ROOT));
    let around = around.as_deref().filter(|around| !around.is_empty());
    if let (Some(template), None) = (&variable, options.setting("LAZYGUARD_OUT")) {
        let field = settings::unknown_field(template);
        field.iter().for_each(|field| output::say(settings::unknown_field_complaint("LAZYGUARD_OUT", field)));
    }
    let for_other_users = self::variable(RUN_OTHER_USERS).filter(|place| !place.is_empty());
    // Ranks whose launcher gives their job no name have their parent in common.
    let of_parent = || format!("{}-{}", facts.host, std::os::unix::process::parent_id());
    let job = settings::job(self::variable).unwrap_or_else(of_parent);
    let given = Given {
        option: options.setting("LAZYGUARD_OUT"),
        variable: variable.as_deref(),
        around,
        for_other_users: for_other_users.as_deref(),
        job: Some(&job),
    };
    let mark = serde_json::json!({
        "schema": 1, "process": facts.process, "host": facts.host, "rank": facts.rank,
        "started_unix_ns": unix_now().as_nanos() as u64,
        "job": root::shared(given, facts.rank).map(|(job, _)| job),
        "command": ends::command_with_room(command), "around": around,
    });
    let mark = format!("{mark:#}\n");
    let failure = match Root::make(given, facts, &mark) {
        Err(failure) if !options.require_records => failure,
        made => return made,
    };
    // A program that runs without this command runs with it. If the disk is full, for one, memory may have room.
    let private = Given { option: None, variable: None, ..given };
    if let Some(root) = given.template().and_then(|_| Root::make(private, facts, &mark).ok()) {
        let instead =
            "a private folder takes its place, and is removed after a clean end (--require-records refuses to run)";
        output::say(format!("{failure}; {instead}"));
        return Ok(root);
    }
    let ends_itself = || format!(", but that a process which hangs ends itself with status {}", exit_code::HANG);
    let hang = kills_on_hang(options).then(ends_itself).unwrap_or_default();
    output::say(format!("{failure}; the program runs without one, and nothing is found of it{hang}"));
    Ok(Root::nowhere())
}
