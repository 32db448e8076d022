//! The place of an engine on a thread that others wait for.

use std::{
    cell::Cell,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use super::call_inbox::CallInbox;
use crate::{
    instance::{Instance, Place},
    modules::Modules,
    options::Options,
};

/// At least so much time lies between the loading of two engines on one seat.
const LOAD_PAUSE: Duration = Duration::from_secs(1);

/// An engine, with what its calls have for one another.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) options: Arc<Options>,
    pub(super) instance: Instance,
    pub(super) mail: CallInbox,
    is_retired: Cell<bool>,
}

impl Engine {
    /// It gets no further calls: one was ended here in its middle, and what it would have come to does not come about any more. Others may wait for that.
    pub(super) fn retire(&self) {
        self.is_retired.set(true);
        self.mail.call_all();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.get()
    }

    fn is_fit(&self) -> bool {
        !self.is_retired() && self.instance.is_sound() && !self.instance.is_worn()
    }
}

/// Has an engine made when it is first needed, and again when the one before is of no use any more.
#[derive(Debug)]
pub(super) struct EngineSlot {
    options: Arc<Options>,
    modules: Arc<Modules>,
    place: Place,
    taken: SlotState,
    /// When the last engine was made, or tried to be.
    loaded_at: Option<Instant>,
}

#[derive(Debug)]
enum SlotState {
    Nobody,
    By(Rc<Engine>),
    /// It cannot be loaded here: executors do all of it.
    Never,
}

impl EngineSlot {
    pub(super) fn new(options: &Arc<Options>, modules: &Arc<Modules>, place: Place) -> Self {
        Self {
            options: options.clone(),
            modules: modules.clone(),
            place,
            taken: if options.limits.isolated {
                SlotState::Never
            } else {
                SlotState::Nobody
            },
            loaded_at: None,
        }
    }

    /// Whether there is an engine, or may be.
    pub(super) fn may_be_used(&self) -> bool {
        match &self.taken {
            SlotState::Nobody => self.may_load(),
            SlotState::By(_) => true,
            SlotState::Never => false,
        }
    }

    /// To load the script takes others' time: after an engine that did not last there are only executors for a while.
    fn may_load(&self) -> bool {
        !self.modules.is_left_to_executors()
            && self
                .loaded_at
                .is_none_or(|loaded_at| loaded_at.elapsed() >= LOAD_PAUSE)
    }

    /// The engine that is there.
    pub(super) fn there(&self) -> Option<&Rc<Engine>> {
        match &self.taken {
            SlotState::By(engine) => Some(engine),
            SlotState::Nobody | SlotState::Never => None,
        }
    }

    /// The engine gets no more calls.
    pub(super) fn replace(&mut self) {
        self.taken = SlotState::Nobody;
    }

    /// An engine that is fit for a call, made now if there is none.
    pub(super) fn engine(&mut self) -> Option<Rc<Engine>> {
        if self.there().is_some_and(|engine| !engine.is_fit()) {
            self.replace();
        }
        if let SlotState::Nobody = self.taken
            && self.may_load()
        {
            self.loaded_at = Some(Instant::now());
            let loaded = self.modules.check_io_load().and_then(|()| {
                let loaded = Instance::load(&self.options, &self.modules, self.place, Arc::default());
                loaded.map_err(|failure| failure.to_string())
            });
            self.taken = match loaded {
                Ok(instance) => SlotState::By(Rc::new(Engine {
                    options: self.options.clone(),
                    instance,
                    mail: CallInbox::default(),
                    is_retired: Cell::new(false),
                })),
                Err(reason) => {
                    if self.modules.leave_to_executors() {
                        tracing::info!(
                            target: "forebay::script",
                            script = self.options.name,
                            "answers on executors only: {reason}"
                        );
                    }
                    SlotState::Never
                }
            };
        }
        self.there().cloned()
    }
}
