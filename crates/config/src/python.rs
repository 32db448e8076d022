//! Parses the name of a Python application.

use std::path::Path;

/// A handler as it is written: `app.py`, `app.py:api`, `package.module:api`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handler<'a> {
    /// A file or a module.
    pub(crate) place: &'a str,
    /// The part after the colon.
    pub(crate) object: Option<&'a str>,
}

impl<'a> Handler<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        match text.rsplit_once(':') {
            Some((place, object)) if is_object(object) => Self {
                place,
                object: Some(object),
            },
            _ => Self {
                place: text,
                object: None,
            },
        }
    }

    /// Whether `place` is a file rather than a module's name.
    pub(crate) fn is_file(&self) -> bool {
        self.place.contains('/') || self.has_extension()
    }

    /// Whether only Python has handlers of this form.
    pub(crate) fn is_python(&self) -> bool {
        self.has_extension() || (self.object.is_some() && is_dotted(self.place))
    }

    fn has_extension(&self) -> bool {
        Path::new(self.place)
            .extension()
            .is_some_and(|ending| ending == "py")
    }

    /// Whether `place` may be a module's name.
    pub(crate) fn is_module(&self) -> bool {
        is_dotted(self.place)
    }
}

/// An object expression: `app`, `module.app`, `create_app()`.
fn is_object(text: &str) -> bool {
    is_dotted(text.strip_suffix("()").unwrap_or(text))
}

/// Python identifiers separated by dots.
fn is_dotted(text: &str) -> bool {
    text.split('.').all(|name| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Why a mount point is invalid, if so.
pub(crate) fn mount_problem(mount: &str) -> Option<String> {
    let plain = mount.starts_with('/')
        && !mount.ends_with('/')
        && !mount.contains("//")
        && !mount.contains(|c: char| "?#%*:".contains(c) || c.is_control());
    (!plain).then(|| {
        format!(
            "found {mount:?}, expected a path such as \"/py\": it starts with a slash, does not end with one, and stands there \
             decoded, without `:` and `*`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_a_file_or_a_module_and_perhaps_an_object_in_it() {
        let read = |text| {
            let Handler { place, object } = Handler::read(text);
            (place, object)
        };
        assert_eq!(read("app.py"), ("app.py", None));
        assert_eq!(read("web/app.py:api"), ("web/app.py", Some("api")));
        assert_eq!(read("app.py:create_app()"), ("app.py", Some("create_app()")));
        assert_eq!(
            read("mysite.wsgi:application"),
            ("mysite.wsgi", Some("application"))
        );
        assert_eq!(read("app.py:api.wsgi"), ("app.py", Some("api.wsgi")));
        assert_eq!(read("a:b/app.py"), ("a:b/app.py", None));
        assert_eq!(read("app.py:"), ("app.py:", None));
        assert_eq!(read("app.py:1st"), ("app.py:1st", None));
        assert!(Handler::read("app:app").is_python());
        assert!(Handler::read("app.py").is_python());
        assert!(!Handler::read("api.mjs").is_python());
        assert!(!Handler::read("a-b:c").is_python());
        assert!(Handler::read("web/app").is_file());
        assert!(!Handler::read("web.app").is_file());
    }

    #[test]
    fn a_mount_point_is_a_plain_path() {
        for mount in ["/py", "/a/b", "/caf\u{e9}"] {
            assert_eq!(mount_problem(mount), None, "{mount}");
        }
        for mount in [
            "", "/", "py", "/py/", "/a//b", "/py*", "/:id", "/a%20b", "/a?b", "/a\n",
        ] {
            assert!(mount_problem(mount).is_some(), "{mount}");
        }
    }
}
