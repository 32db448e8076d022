//! `[store]`: the result of valid sections, and the complete text of each error.

use std::time::Duration;

use forebay_config::{Access, Durability, Permission, Secret, Store, StoreMode, Target};

use crate::config::Project;

#[test]
fn a_file_without_the_section_has_no_store() {
    let project = Project::new();
    let config = project.good("[pool.api]\nhandler = 'api.mjs'");
    assert_eq!(config.store, None);
    assert_eq!(config.pools["api"].store_mode(), StoreMode::None);
    assert!(!config.to_toml().contains("[store]"));
}

#[test]
fn an_empty_section_has_every_default() {
    let project = Project::new();
    let config = project
        .good("[store]\n[pool.api]\nhandler = 'api.mjs'\n[pool.no]\nhandler = 'api.mjs'\nstore = 'none'");
    assert_eq!(
        config.store,
        Some(Store {
            path: project.folder.join("data"),
            url: None,
            durability: Durability::Group,
            flush_interval: Duration::from_millis(20),
            map_max: 64 << 30,
            reader_age_max: Duration::from_mins(1),
            value_bytes_max: 64 << 20,
            queue_max: 1024,
            queue_bytes_max: 64 << 20,
            access: [].into(),
            index: [].into(),
        })
    );
    assert_eq!(config.pools["api"].store_mode(), StoreMode::ReadWrite);
    assert_eq!(config.pools["no"].store_mode(), StoreMode::None);
}

#[test]
fn a_store_may_be_in_a_database_instead() {
    let mut project = Project::new();
    project.env.push(("PASSWORD", "s3cret".to_owned()));
    let config =
        project.good("[store]\nurl = 'postgres://app:${PASSWORD}@a:1,b/d?sslmode=disable&schema=shop'");
    let location = config.store.as_ref().unwrap().location();
    assert_eq!(
        location.to_str(),
        Some("postgres://app:s3cret@a:1,b/d?sslmode=disable&schema=shop")
    );
    let printed = config.to_toml();
    assert!(
        printed.contains("url = \"postgres://app@a:1,b:5432/d?sslmode=disable&schema=shop\""),
        "{printed}"
    );
    assert!(
        !printed.contains("s3cret") && !printed.contains("map_max"),
        "{printed}"
    );
}

#[test]
fn rules_name_globals_and_tokens() {
    let mut project = Project::new();
    project.env.push(("TOKEN", "s3cret".to_owned()));
    let text = "[store]\n[store.access]\nPerson = { read = 'public', write = 'token:TOKEN' }\n'%Zé.1' = {}\n\
        [[route]]\npath = '/api/store/*'\nstore = {}";
    let config = project.good(text);
    assert_eq!(config.routes[0].target, Target::Store);
    let access = &config.store.as_ref().unwrap().access;
    let token = Permission::Token(Secret::of_variable("TOKEN", "s3cret"));
    let (read, write) = (Permission::Public, token);
    assert_eq!(access["Person"], Access { read, write });
    let (read, write) = (Permission::Nobody, Permission::Nobody);
    assert_eq!(access["%Zé.1"], Access { read, write });
    // Neither printing nor `Debug` shows the token itself.
    assert!(
        config
            .to_toml()
            .contains("\"Person\" = { read = \"public\", write = \"token:TOKEN\" }")
    );
    assert!(!config.to_toml().contains("s3cret") && !format!("{config:?}").contains("s3cret"));
    assert_eq!(project.good(&config.to_toml()), config);
}

#[test]
fn indexes_are_read_and_printed() {
    let project = Project::new();
    let text = "[store]\n[store.index.by-tag]\nrecords = 'Person/the%20data'\nfields = ['tags.*']\n\
        [store.index]\n'by name' = { records = 'Person', fields = ['lastName', 'a.\"b.c\"'], unique = true }";
    let config = project.good(text);
    let indexes = config.store.as_ref().unwrap().indexes();
    assert_eq!(indexes[0].name, "by name");
    assert_eq!(indexes[0].fields, [vec!["lastName"], vec!["a", "b.c"]]);
    assert!(indexes[0].unique && !indexes[1].unique);
    assert_eq!(indexes[1].records.to_string(), "^Person(\"the data\")");
    assert_eq!(project.good(&config.to_toml()), config);
}

#[test]
fn what_numbers_are_times_is_read_and_printed() {
    let project = Project::new();
    let text = "[store]\n[records]\ntime_format = 'DATE'\ntime_zone = '-03:30'\n\
        detect = { uuid = false, time_number = true, time_number_max = 1600000000, time_number_decimals = 9 }";
    let config = project.good(text);
    let settings = config.records.settings();
    let detect = settings.detect;
    let numbers = detect
        .time_number
        .map(|which| (which.min, which.max, which.decimals));
    assert_eq!(numbers, Some((1_000_000_000, 1_600_000_000, 9)));
    assert!(detect.time && !detect.uuid);
    assert_eq!(settings.zone_minutes, -210);
    assert_eq!(project.good(&config.to_toml()), config);
    assert_eq!(
        project.good("[store]").records.settings().detect.time_number,
        None
    );
}

#[test]
fn each_mistake_is_named() {
    let mut project = Project::new();
    project.env.push(("EMPTY", String::new()));
    project.env.push(("SPACED", "a b".to_owned()));
    let store = "[store]\n[store.access]\n";
    let variable = "must hold the token: at least one printable ASCII character, no spaces";
    for (text, expected) in [
        (
            "[store]\ndurability = 'some'",
            "2: store.durability: found 'some', expected one of \"sync\", \"group\", \"relaxed\"".to_owned(),
        ),
        (
            "[store]\n[records]\ntime_zone = 'Europe/Oslo'",
            "3: records.time_zone: found \"Europe/Oslo\", expected \"Z\" or a distance from UTC such as \"+02:00\"; zones by their names are not known".to_owned(),
        ),
        (
            "[store]\n[records]\ndetect = { time_number_min = 10, time_number_max = 9 }",
            "3: records.detect.time_number_max: found 9, expected at least time_number_min (10)".to_owned(),
        ),
        (
            "[store]\nurl = 'postgres://app:secret@h'",
            "2: store.url: the URL has no database; it is written as \"postgres://user:password@host:5432/database\"".to_owned(),
        ),
        (
            "[store]\nurl = 'postgres://app@h/d'\npath = 'data'",
            "3: store.path: it is for a store in a folder (`path`), and this one is in a database (`url`)".to_owned(),
        ),
        (
            "[store]\nurl = 'postgres://app@h/d'\n[pool.p]\nhandler = 'api.mjs'\n[[route]]\npath = '/a'\npool = 'p'\ndurable = {}",
            "8: route.durable: jobs are kept in a store that one server has to itself (store.path), or in JetStream (cluster.job_replicas), and not in a database (store.url)".to_owned(),
        ),
        (
            "[store]\nreaders = 1",
            "2: store.readers: no such key; accepted: path, url, durability, flush_interval, map_max, reader_age_max, value_bytes_max, queue_max, queue_bytes_max, access, index".to_owned(),
        ),
        (
            "[store]\naccess = 'public'",
            "2: store.access: found 'public', expected tables with read, write, each under a name".to_owned(),
        ),
        (
            &format!("{store}Person = 'public'"),
            "3: store.access.Person: found 'public', expected a table with read, write".to_owned(),
        ),
        (
            &format!("{store}Person = {{ red = 'public' }}"),
            "3: store.access.Person.red: no such key (did you mean `read`?); accepted: read, write".to_owned(),
        ),
        (
            &format!("{store}'a b' = {{}}"),
            "3: store.access.a b: the name of a global cannot contain ' ': letters, digits and any of `%._-` are accepted".to_owned(),
        ),
        (
            &format!("{store}Person = {{ read = 'everybody' }}"),
            "3: store.access.Person.read: found \"everybody\", expected \"public\", \"none\" or \"token:NAME\" with the name of an environment variable".to_owned(),
        ),
        (
            &format!("{store}Person = {{ write = 'token:' }}"),
            "3: store.access.Person.write: found \"token:\", expected \"public\", \"none\" or \"token:NAME\" with the name of an environment variable".to_owned(),
        ),
        (
            &format!("{store}Person = {{ write = 'token:MISSING' }}"),
            format!("3: store.access.Person.write: the environment variable `MISSING` {variable}"),
        ),
        (
            &format!("{store}Person = {{ write = 'token:EMPTY' }}"),
            format!("3: store.access.Person.write: the environment variable `EMPTY` {variable}"),
        ),
        (
            &format!("{store}Person = {{ write = 'token:SPACED' }}"),
            format!("3: store.access.Person.write: the environment variable `SPACED` {variable}"),
        ),
        (
            "[store]\n[store.index.by-name]\nrecord = 'P'",
            "2: store.index.by-name.records: missing; expected text without NUL\n\
             ./forebay.toml:2: store.index.by-name.fields: missing; expected a text or a list of at least 1 text\n\
             ./forebay.toml:3: store.index.by-name.record: no such key (did you mean `records`?); accepted: records, fields, unique".to_owned(),
        ),
        (
            "[store]\n[store.index]\na = { records = 'a b', fields = ['x'] }",
            "3: store.index.a.records: found \"a b\", expected a node as in a URL, such as \"Person/data\": the name of a global cannot contain ' ': letters, digits and any of `%._-` are accepted".to_owned(),
        ),
        (
            "[store]\n[store.index]\na = { records = 'P/%zz', fields = ['x'] }",
            "3: store.index.a.records: found \"P/%zz\", expected a node as in a URL, such as \"Person/data\": \"%zz\" is not percent-encoded UTF-8".to_owned(),
        ),
        (
            "[store]\n[store.index]\na = { records = 'P', fields = ['x.'] }",
            "3: store.index.a.fields: found \"x.\", expected a field such as \"lastName\", \"address.city\" or \"tags.*\": a name is missing (an empty one is written `\"\"`) at byte 2".to_owned(),
        ),
        (
            "[store]\n[store.index]\na = { records = 'P', fields = ['x.*', 'y.*'] }",
            "3: store.index.a.fields: index `a`: `*` can stand only once in its fields".to_owned(),
        ),
        (
            "[[route]]\npath = '/store/*'\nstore = {}",
            "3: route.store: there is no store: the file has no [store]".to_owned(),
        ),
        (
            "[pool.api]\nhandler = 'api.mjs'\nstore = 'ro'",
            "3: pool.api.store: there is no store: the file has no [store]".to_owned(),
        ),
        (
            "[store]\n[[route]]\npath = '/store'\nstore = {}",
            "3: route.path: found \"/store\"; a route with `store` is a name and `/*`, which names the node: \"/store/*\"".to_owned(),
        ),
        (
            "[store]\n[[route]]\npath = '/*'\nstore = {}",
            "3: route.path: found \"/*\"; a route with `store` is a name and `/*`, which names the node: \"/store/*\"".to_owned(),
        ),
        (
            "[store]\n[[route]]\npath = '/store/*'\nstore = { path = 'data' }",
            "4: route.store.path: no such key; the table is empty".to_owned(),
        ),
        (
            "[store]\n[[route]]\npath = '/store/*'\nstore = true",
            "4: route.store: found true, expected an empty table".to_owned(),
        ),
        (
            "[store]\n[[route]]\npath = '/store/*'\nstore = {}\n[[route]]\npath = '/store:batch'\nrespond = {}",
            "6: route.path: `/store:batch` answers every method already, by the route on line 3".to_owned(),
        ),
    ] {
        assert_eq!(project.errors(text), format!("./forebay.toml:{expected}"), "in:\n{text}");
    }
}
