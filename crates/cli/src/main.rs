//! The `forebay` command.
use forebay_server::{Reload, Server, config::Config, logging};
use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let started = std::time::Instant::now();
    let mut arguments = std::env::args().skip(1);
    let file = PathBuf::from(arguments.next().unwrap_or_else(|| "forebay.toml".into()));
    let config = Config::load(&file)?;
    let logging = logging::init(&config.log)?;
    let reload = Reload {
        load: Box::new(move || Config::load(&file)),
        watch: arguments.next().is_some_and(|option| option == "--watch"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = Server::start(config, reload, logging.handle())?;
        #[allow(clippy::print_stdout)]
        {
            println!(
                "forebay 0.1.0 started in {} ms, listening on {}",
                started.elapsed().as_millis(),
                server.urls().join(", ")
            );
        }
        Ok(server.run().await?)
    })
}
