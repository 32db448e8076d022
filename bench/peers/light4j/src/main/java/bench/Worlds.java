package bench;

import io.undertow.server.HttpServerExchange;
import io.undertow.util.Headers;
import java.util.Deque;
import java.util.concurrent.ThreadLocalRandom;

/** Shared by both routes: the number of rows requested, their ids, and their JSON. */
final class Worlds {
    private static final int COUNT = 10_000;
    private static final int QUERIES_MAX = 500;

    private Worlds() {}

    static int asked(HttpServerExchange exchange) {
        Deque<String> values = exchange.getQueryParameters().get("queries");
        try {
            return values == null ? 1 : Math.min(QUERIES_MAX, Math.max(1, Integer.parseInt(values.peekFirst())));
        } catch (NumberFormatException e) {
            return 1;
        }
    }

    static int lot() {
        return 1 + ThreadLocalRandom.current().nextInt(COUNT);
    }

    /** Responds with rows of an id and a number each. */
    static void answer(HttpServerExchange exchange, int[][] rows) {
        StringBuilder json = new StringBuilder(32 * rows.length + 2).append('[');
        for (int index = 0; index < rows.length; index++) {
            if (index > 0) json.append(',');
            json.append("{\"id\":").append(rows[index][0]).append(",\"randomNumber\":").append(rows[index][1]).append('}');
        }
        exchange.getResponseHeaders().put(Headers.CONTENT_TYPE, "application/json");
        exchange.getResponseSender().send(json.append(']').toString());
    }
}
