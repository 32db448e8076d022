package bench;

import java.net.URI;

/** Where the database is, and how many connections there are: from the environment. */
final class Database {
    static final URI URL = URI.create(System.getenv("FOREBAY_PG_URL"));
    static final String NAME = URL.getPath().substring(1);
    static final String USER = URL.getUserInfo().split(":")[0];
    static final String PASSWORD = URL.getUserInfo().split(":")[1];
    static final int CONNECTIONS = Integer.parseInt(System.getenv().getOrDefault("CONNECTIONS", "256"));
    static final boolean PIPELINED = Boolean.parseBoolean(System.getenv().getOrDefault("PIPELINED", "true"));

    /** After how often it is run a statement of the blocking driver is prepared on the server; 0: never. */
    static final String PREPARE_THRESHOLD = System.getenv().getOrDefault("PREPARE_THRESHOLD", "5");

    private Database() {}
}
